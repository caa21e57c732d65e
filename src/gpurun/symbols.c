/* symbols.c - the ELF tables of a candidate's shared object. */
#include "gpurun/symbols.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gpurun/host.h"

/* What a launcher may call (section 0), less its namesakes. */
static const char *const callable[] = {
	"cuTensorMapEncodeTiled", "cudaDeviceGetAttribute", "cudaFuncSetAttribute",
	"cudaGetDevice",          "cudaGetLastError",       "cudaLaunchKernelExC",
	"cudaMemset2DAsync",      "cudaMemsetAsync",
};

/*
 * What nvcc and g++ write by themselves: the registration of the fat binary and
 * of its kernels, <<<>>>, the guards of static locals in there, start files. Not
 * __cudaRegisterVar: a variable in device memory that outlives the launch is
 * state, and none of ours has one.
 */
static const char *const compilers[] = {
	"_ITM_deregisterTMCloneTable",
	"_ITM_registerTMCloneTable",
	"_Unwind_Resume",
	"__cudaGetKernel",
	"__cudaInitModule",
	"__cudaLaunchKernel",
	"__cudaPopCallConfiguration",
	"__cudaPushCallConfiguration",
	"__cudaRegisterFatBinary",
	"__cudaRegisterFatBinaryEnd",
	"__cudaRegisterFunction",
	"__cudaUnregisterFatBinary",
	"__cxa_atexit",
	"__cxa_finalize",
	"__cxa_guard_abort",
	"__cxa_guard_acquire",
	"__cxa_guard_release",
	"__gmon_start__",
	"__gxx_personality_v0",
	"__stack_chk_fail",
	"cudaLaunchKernel",
};

/* Of libc and libm: functions of their arguments alone. */
static const char *const pure[] = {
	"ceil",   "ceilf",  "cos",    "cosf",   "exp",    "exp2",    "exp2f",  "expf",  "floor",
	"floorf", "fmod",   "fmodf",  "ldexp",  "ldexpf", "log",     "log10",  "log2",  "log2f",
	"logf",   "lrint",  "lrintf", "memcmp", "memcpy", "memmove", "memset", "pow",   "powf",
	"round",  "roundf", "sin",    "sinf",   "sqrt",   "sqrtf",   "strlen", "trunc", "truncf",
};

static const char *const libraries[] = {
	"ld-linux-x86-64.so.2",  "libc.so.6", "libcuda.so.1",
	"libgcc_s.so.1",         "libm.so.6", "libstdc++.so.6",
	"ld-linux-aarch64.so.1",
};

#define IN(list, name) in(list, sizeof list / sizeof *list, name)

static bool in(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(list[i], name))
			return true;
	}
	return false;
}

/* The file's bytes; every access is checked against its length. */
struct elf {
	const char *p;
	size_t n;
	Elf64_Ehdr header;
	char *why;
	size_t why_n;
};

static bool refuse(const struct elf *e, const char *what, const char *value)
{
	if (value)
		snprintf(e->why, e->why_n, "%s '%.80s'", what, value);
	else
		snprintf(e->why, e->why_n, "%s", what);
	return false;
}

static bool get(const struct elf *e, uint64_t at, void *to, size_t size)
{
	if (at > e->n || e->n - at < size)
		return false;
	memcpy(to, e->p + at, size);
	return true;
}

static bool section(const struct elf *e, unsigned i, Elf64_Shdr *s)
{
	if (i >= e->header.e_shnum || e->header.e_shentsize != sizeof *s)
		return false;
	if (!get(e, e->header.e_shoff + (uint64_t)i * sizeof *s, s, sizeof *s))
		return false;
	return s->sh_type == SHT_NOBITS ||
	       (s->sh_offset <= e->n && e->n - s->sh_offset >= s->sh_size);
}

/* A string of a section that holds strings; NULL if it runs out of it. */
static const char *string(const struct elf *e, unsigned table, uint64_t at)
{
	Elf64_Shdr s;

	if (!section(e, table, &s) || s.sh_type != SHT_STRTAB || at >= s.sh_size ||
	    !memchr(e->p + s.sh_offset + at, '\0', s.sh_size - at))
		return NULL;
	return e->p + s.sh_offset + at;
}

static bool check_symbols(const struct elf *e, const Elf64_Shdr *s, const char *op)
{
	char workspace[80];
	bool launcher = false;

	snprintf(workspace, sizeof workspace, "%s_workspace", op);
	/* The first symbol is no symbol. */
	for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= s->sh_size;
	     at += sizeof(Elf64_Sym)) {
		Elf64_Sym y;
		const char *name;

		if (!get(e, s->sh_offset + at, &y, sizeof y) ||
		    !(name = string(e, s->sh_link, y.st_name)))
			return refuse(e, "a symbol table that cannot be read", NULL);
		if (ELF64_ST_BIND(y.st_info) == STB_LOCAL)
			continue;
		if (ELF64_ST_TYPE(y.st_info) == STT_GNU_IFUNC)
			return refuse(e, "code that runs when it is loaded, for symbol", name);
		if (y.st_shndx == SHN_UNDEF) {
			if (!IN(callable, name) && !IN(compilers, name) && !IN(pure, name))
				return refuse(e, "undefined symbol", name);
		} else if (!strcmp(name, op)) {
			launcher = ELF64_ST_TYPE(y.st_info) == STT_FUNC;
		} else if (strcmp(name, workspace)) {
			return refuse(e, "exported symbol", name);
		}
	}
	return launcher || refuse(e, "no launcher", op);
}

static bool check_dynamic(const struct elf *e, const Elf64_Shdr *s)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= s->sh_size; at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn d;
		const char *name;

		if (!get(e, s->sh_offset + at, &d, sizeof d))
			return refuse(e, "a dynamic section that cannot be read", NULL);
		switch (d.d_tag) {
		case DT_NEEDED:
			name = string(e, s->sh_link, d.d_un.d_val);
			if (!name || (!IN(libraries, name) && strncmp(name, "libcudart.so.", 13)))
				return refuse(e, "library", name ? name : "?");
			break;
		case DT_INIT_ARRAYSZ:
			/* frame_dummy and the registration of the fat binary. */
			if (d.d_un.d_val > 2 * sizeof(Elf64_Addr))
				return refuse(e, "a constructor of its own", NULL);
			break;
		case DT_PREINIT_ARRAYSZ:
		case DT_RPATH:
		case DT_RUNPATH:
		case DT_AUDIT:
		case DT_DEPAUDIT:
		case DT_FILTER:
		case DT_AUXILIARY:
			return refuse(e, "a dynamic entry of its own", NULL);
		default:
			break;
		}
	}
	return true;
}

static bool check_relocations(const struct elf *e, const Elf64_Shdr *s)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s->sh_size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela r;
		uint32_t type;

		if (!get(e, s->sh_offset + at, &r, sizeof r))
			return refuse(e, "relocations that cannot be read", NULL);
		type = (uint32_t)ELF64_R_TYPE(r.r_info);
		if ((e->header.e_machine == EM_X86_64 && type == R_X86_64_IRELATIVE) ||
		    (e->header.e_machine == EM_AARCH64 && type == R_AARCH64_IRELATIVE))
			return refuse(e, "code that runs when it is loaded", NULL);
	}
	return true;
}

bool symbols_allowed(const char *path, const char *op, char *why, size_t n)
{
	static struct buf file;
	struct elf e = { .why = why, .why_n = n };
	bool symbols = false, dynamic = false;

	buf_clear(&file);
	if (!host_read(path, (size_t)1 << 30, &file))
		return refuse(&e, "a file that cannot be read", NULL);
	e.p = file.data;
	e.n = file.len;
	if (!get(&e, 0, &e.header, sizeof e.header) || memcmp(e.header.e_ident, ELFMAG, SELFMAG) ||
	    e.header.e_ident[EI_CLASS] != ELFCLASS64 || e.header.e_type != ET_DYN)
		return refuse(&e, "no shared object", NULL);
	for (unsigned i = 0; i < e.header.e_shnum; i++) {
		Elf64_Shdr s;

		if (!section(&e, i, &s))
			return refuse(&e, "a section that cannot be read", NULL);
		if (s.sh_type == SHT_DYNSYM) {
			symbols = true;
			if (!check_symbols(&e, &s, op))
				return false;
		} else if (s.sh_type == SHT_DYNAMIC) {
			dynamic = true;
			if (!check_dynamic(&e, &s))
				return false;
		} else if (s.sh_type == SHT_RELA && !check_relocations(&e, &s)) {
			return false;
		}
	}
	return (symbols && dynamic) || refuse(&e, "no dynamic symbols", NULL);
}
