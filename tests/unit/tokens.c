/* tokens.c - gpurun/tokens: what of a source a label rests on. */
#include "check.h"

#include <string.h>

/* bench's layer is no archive: the file itself. */
#include "gpurun/tokens.c"

static const char *const params[] = { "ROWS", "WARPS" }, *const renamed[] = { "kRows", "kWarps" };

static uint64_t cuda(const char *s, const char *const *names)
{
	return tokens_hash(s, strlen(s), false, names, names ? 2 : 0);
}

static uint64_t python(const char *s)
{
	return tokens_hash(s, strlen(s), true, NULL, 0);
}

int main(void)
{
	const char *plain = "int f(int a) { return a + ROWS * WARPS; }";
	uint64_t h = cuda(plain, params);

	check(h == cuda("int f(int a) // adds\n{\n  return a+ROWS*WARPS; /* all */ }", params),
	      "comments and white space do not count");
	check(h != cuda("int f(int a) { return a - ROWS * WARPS; }", params), "a token counts");
	check(h != cuda("int f(int a) { return a + 1 ROWS * WARPS; }", params),
	      "a token more counts");
	check(h == cuda("int f(int a) { return a + kRows * kWarps; }", renamed),
	      "what a parameter is called does not count");
	check(h != cuda("int f(int a) { return a + WARPS * ROWS; }", params),
	      "which parameter it is counts");
	check(cuda("int ROWS2 = ROWS;", params) == cuda("int ROWS2 = kRows;", renamed) &&
	              cuda("int ROWS2;", params) != cuda("int kRows2;", renamed),
	      "a longer name is another name");
	check(cuda("f(\"ROWS\");", params) != cuda("f(\"kRows\");", renamed),
	      "a literal is no name");
	check(cuda("int a b;", NULL) != cuda("int ab;", NULL), "names are not joined");
	check(python("if a:\n  b()\nc()\n") != python("if a:\n  b()\n  c()\n"),
	      "Python's indentation counts");
	check(python("a = 1  # one\n\nb = 2\n") == python("a = 1\nb = 2\n"),
	      "Python's comments and empty lines do not");
	return check_done();
}
