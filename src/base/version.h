/* version.h - the version of all programs; a change of output bytes changes it. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define KS_VERSION "0.2.0"

#endif
