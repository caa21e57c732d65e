# lint.jq - words for breaking a good row, once.

# The first message for which f holds becomes g of it; no row if there is none.
def msg(f; g): (.messages | map(f) | index(true)) as $i | select($i) | .messages[$i] |= g;
# Messages are numbered afresh.
def renumber: .messages |= (to_entries | map(.value.step = .key | .value)) | .num_messages = (.messages | length);
# The author of a candidate, its result, its source.
def author($c): .messages[] | select(.kind == "candidate" and .candidate == $c) | .from;
def source($c): .messages[] | select(.kind == "candidate" and .candidate == $c) | .source;
def at(f): .messages | map(f) | index(true);
