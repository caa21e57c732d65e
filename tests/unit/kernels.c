/* kernels.c - every kernel file: its markers, its faults, its rendered text. */
#include "kernels/kernel.h"

#include <ctype.h>
#include <string.h>

#include "check.h"
#include "gpu/gpu.h"
#include "ops/config.h"

/* Words that would give a label away. */
static const char *const forbidden[] = { "fault", "bug", "wrong", "incorrect", "//!", "#!" };

static int count(const char *text, char c)
{
	int n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static void rendered_is_clean(const struct kernel *k, const char *dtype)
{
	int64_t params[KERNEL_MAX_PARAMS];
	struct buf plain = { 0 }, text = { 0 };
	int line, bad = 0, same = 0, lineless = 0;

	config_preset(k, params);
	kernel_render(k, dtype, params, NULL, &plain, &line);
	bad += line != 0;
	for (int f = -1; f < k->n_faults; f++) {
		buf_clear(&text);
		kernel_render(k, dtype, params, f < 0 ? NULL : &k->faults[f], &text, &line);
		for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
			for (char *p = text.data; p && (p = strstr(p, forbidden[i])); p++)
				bad += p == text.data ||
				       !isalpha((unsigned char)p[-1]); /* not `default` */
		}
		if (f < 0)
			continue;
		same += strcmp(text.data, plain.data) == 0;
		lineless += line < 1 || line > count(text.data, '\n') + 1;
	}
	check(!bad, "%s as %s: no marker or label word in the source (%d)", k->path, dtype, bad);
	check(!same && !lineless, "%s as %s: each of %d faults changes the source at a line",
	      k->path, dtype, k->n_faults);
	buf_free(&plain);
	buf_free(&text);
}

static void parameters_render(const struct kernel *k, const char *dtype)
{
	struct buf a = { 0 }, b = { 0 };
	int line, silent = 0;

	for (int i = 0; i < k->n_params; i++) {
		int64_t params[KERNEL_MAX_PARAMS];

		config_preset(k, params);
		buf_clear(&a);
		kernel_render(k, dtype, params, NULL, &a, &line);
		for (int v = 0; v < k->params[i].n; v++) {
			params[i] = k->params[i].value[v];
			buf_clear(&b);
			kernel_render(k, dtype, params, NULL, &b, &line);
			silent +=
				(params[i] != k->params[i].preset) == (strcmp(a.data, b.data) == 0);
		}
	}
	check(!silent, "%s: every value of every parameter shows in the source", k->path);
	buf_free(&a);
	buf_free(&b);
}

int main(void)
{
	int n_ops, total = 0;
	const struct op *const *ops = op_list(&n_ops);

	check(n_ops == 17, "%d ops", n_ops);
	for (int o = 0; o < n_ops; o++) {
		for (int impl = 0; impl < IMPL_COUNT; impl++) {
			int n, compile = 0, wrong = 0;
			const struct kernel *const *list =
				kernel_list(ops[o]->name, impl == IMPL_TRITON, &n);

			if (!(ops[o]->impls >> impl & 1)) {
				check(n == 0, "%s has no %s kernels", ops[o]->name,
				      impl_name((enum impl)impl));
				continue;
			}
			check(n >= 3 && strcmp(list[0]->variant, "naive") == 0,
			      "%s (%s): naive and %d more", ops[o]->name,
			      impl_name((enum impl)impl), n - 1);
			check(n > 0 && !list[0]->needs[0], "%s (%s): naive needs nothing",
			      ops[o]->name, impl_name((enum impl)impl));
			for (int i = 0; i < n; i++) {
				total++;
				for (int f = 0; f < list[i]->n_faults; f++) {
					compile += list[i]->faults[f].compile;
					wrong += !list[i]->faults[f].compile;
				}
				for (int d = 0; d < ops[o]->n_dtypes; d++) {
					if (kernel_has_dtype(list[i],
					                     dtype_name(ops[o]->dtypes[d])))
						rendered_is_clean(list[i],
						                  dtype_name(ops[o]->dtypes[d]));
				}
				parameters_render(list[i], dtype_name(ops[o]->dtypes[0]));
				for (int f = 0; list[i]->needs[f]; f++)
					check(gpu_feature_from_name(list[i]->needs[f]) >= 0,
					      "%s needs a known feature, %s", list[i]->path,
					      list[i]->needs[f]);
			}
			check(compile >= 3 && wrong >= 3,
			      "%s (%s): %d compile faults, %d wrong ones", ops[o]->name,
			      impl_name((enum impl)impl), compile, wrong);
		}
	}
	check(total >= 54, "%d kernel files", total);
	return check_done();
}
