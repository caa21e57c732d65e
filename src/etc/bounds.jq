# bounds.jq - the statistics of the default build that lint cannot count (it has
# no model and no texts of other rows): a line for each that is out of bounds.
# Use: jq -r -f src/etc/bounds.jq data/stats.json
def within($what; $x; $min; $max):
	if $x >= $min and $x <= $max then empty
	else "stats: \($what): is \($x), not \($min) to \($max)" end;

# A move against the limiter pays.
within("moves.gain"; .moves.gain; 0.15; 1),
# With numbers masked no form of a text makes up 1 % of its kind, and texts
# hardly repeat.
(.texts.largest_skeleton | to_entries[] | within("texts.largest_skeleton.\(.key)"; .value; 0; 0.01)),
within("texts.repeats"; .texts.repeats; 0; 0.02)
