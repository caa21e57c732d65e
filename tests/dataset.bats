#!/usr/bin/env bats
# The default data set, whole: its sums, its statistics, its card.
load helper

SET=$BUILD/testdata

setup_file() {
	default_set
}

@test "the default build gives the committed sums" {
	[[ -z ${UPDATE-} ]] || cp "$SET/SHA256SUMS" "$ROOT/tests/fixtures/SHA256SUMS.default"
	diff "$ROOT/tests/fixtures/SHA256SUMS.default" "$SET/SHA256SUMS" ||
		fail "if these bytes are meant, change the version and run make test UPDATE=1"
}

@test "make validate is silent: every rule, and the bounds of the statistics" {
	status 0 build "$SET" validate
	[[ ! -s $out && ! -s $err ]]
}

@test "one job and four give the same bytes" {
	build "$BATS_TEST_TMPDIR/one" JOBS=1
	cmp "$BATS_TEST_TMPDIR/one/SHA256SUMS" "$SET/SHA256SUMS"
	rm -r "$BATS_TEST_TMPDIR/one"
}

@test "the card's front matter: configs, splits and their sizes" {
	/usr/bin/python3 -c 'import yaml' || skip "no YAML reader for python3"
	/usr/bin/python3 - "$SET" <<-'END'
		import glob, os, sys, yaml
		d = sys.argv[1]
		card = yaml.safe_load(open(d + "/README.md").read().split("---\n")[1])
		assert card["license"] == "mit" and card["language"] == ["en"] and card["tags"]
		files = {c["config_name"]: c["data_files"] for c in card["configs"]}
		info = {c["config_name"]: c for c in card["dataset_info"]}
		assert list(files) == list(info) == ["episodes", "holdout"]
		for config, split in ("episodes", "train"), ("holdout", "test"):
		    (f,) = files[config]
		    (s,) = info[config]["splits"]
		    names = glob.glob(os.path.join(d, f["path"]))
		    assert f["split"] == s["name"] == split and names
		    assert s["num_bytes"] == sum(os.path.getsize(n) for n in names)
		    assert s["num_examples"] == sum(open(n, "rb").read().count(b"\n") for n in names)
		    assert info[config]["features"]
	END
}

@test "the card's numbers come from stats.json" {
	none grep -nE '\{\{|\}\}|\| null|NaN|null %' <(sed '1,/^---$/d' "$SET/README.md")
	grep -q "$(jq .episodes "$SET/stats.json") episodes" "$SET/README.md"
}

@test "the README's table of the default build is what figures.jq prints" {
	jq -r -f "$ROOT/src/etc/figures.jq" "$SET/stats.json" >"$BATS_TEST_TMPDIR/table"
	(($(wc -l <"$BATS_TEST_TMPDIR/table") > 10))
	none grep -vxF -f "$ROOT/README.md" "$BATS_TEST_TMPDIR/table"
}
