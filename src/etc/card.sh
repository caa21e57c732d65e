#!/usr/bin/env bash
# card.sh DIR <TEMPLATE: the data card of the set in DIR. In the template,
# {{FILTER}} is replaced by what the jq filter says of stats.json; $features,
# $holdout_features, $bytes, $holdout_bytes, $holdout_rows, $version and $command
# are there too.
set -euo pipefail
dir=$1

# The template as a jq string: text is quoted, filters are interpolated.
program=$(awk '
	{ text = text $0 "\n" }
	END {
		while ((at = index(text, "{{")) > 0) {
			out = out quote(substr(text, 1, at - 1))
			text = substr(text, at + 2)
			at = index(text, "}}")
			out = out "\\(" substr(text, 1, at - 1) ")"
			text = substr(text, at + 2)
		}
		printf "\"%s%s\"", out, quote(text)
	}
	function quote(s) {
		gsub(/\\/, "\\\\", s)
		gsub(/"/, "\\\"", s)
		return s
	}')

# What the build was asked for, beyond the defaults.
default=" SEED=1 EPISODES=2400 SHARD_SIZE=100 SCENARIO= REWARD=standard OPS= GPUS= "
command="make dataset"
for knob in $(<"$dir/.knobs"); do
	[[ $default == *" $knob "* ]] || command+=" $knob"
done

features=$(lint --schema episodes --indent 2)
holdout_features=$(lint --schema holdout --indent 2)
version=$(taskgen --version | awk '{ print $2 }')
jq -j --arg features "$features" --arg holdout_features "$holdout_features" \
	--argjson bytes "$(stat -c %s "$dir"/batches/batch_*.jsonl | awk '{ n += $1 } END { printf "%d", n }')" \
	--argjson holdout_bytes "$(wc -c <"$dir/tasks_holdout.jsonl")" \
	--argjson holdout_rows "$(wc -l <"$dir/tasks_holdout.jsonl")" \
	--arg version "$version" --arg command "$command" \
	"$program" "$dir/stats.json"
