# figures.jq - the README's table of the default build.
# Use: jq -r -f src/etc/figures.jq data/stats.json
def fixed($n): ("1" + "0" * $n | tonumber) as $p | (. * $p | round) as $i
	| if $n == 0 then "\($i)" else "\($i / $p | floor).\("0" * $n + "\($i % $p)" | .[-$n:])" end;
def pct($n): "\(. * 100 | fixed($n)) %";
def thousands: round | tostring | [scan(".{1,3}(?=(?:.{3})*$)")] | join(" ");
(.texts.largest_skeleton | to_entries | max_by(.value)) as $skeleton
| "| | |",
  "| --- | --- |",
  "| episodes, messages, candidates | \(.episodes), \(.messages | thousands), \(.candidates | thousands) |",
  "| messages and agents per episode | \(.messages_per_episode | fixed(1)), \(.agents_per_episode | fixed(2)) |",
  (.outcomes.all | "| outcomes | \(.improved | pct(1)) improved, \(.no_improvement | pct(1)) no improvement, \(.compile_error | pct(1)) compile errors, \(.wrong_result | pct(1)) wrong, \(.unsupported_arch | pct(1)) unsupported |"),
  "| improved rewards on the clip | \(.rewards.improved_on_clip | pct(1)) |",
  "| episodes without improvement | \(.log2_speedup.unimproved | pct(2)) |",
  "| winners whose lineage changes variant | \(.winners.lineage_changes_variant | pct(1)) |",
  "| improved, of moves against the limiter / of other moves | \(.moves.against_limiter.improved | pct(1)) / \(.moves.other.improved | pct(1)) |",
  "| return per try; its correlation with agents, with log2 speedup | \(.returns.per_try | fixed(3)); \(.returns.correlation_n_agents | fixed(2)), \(.returns.correlation_log2_speedup | fixed(2)) |",
  "| exact repeats of a text; the largest skeleton of a kind | \(.texts.repeats | pct(2)); \($skeleton.value | pct(2)) (\($skeleton.key)) |",
  "| distinct 3-grams, distinct sources, of them distinct with integers masked | \(.texts.distinct_trigrams | thousands), \(.sources.distinct | thousands), \(.sources.distinct_masked | thousands) |"
