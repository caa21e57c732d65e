# oracle.jq - what an episode adds up to, computed again from its raw results
# (README, Rewards): prints a line for each published number that differs.
def near($b): if . == null or $b == null then . == $b else (. - $b | fabs) <= 1e-8 * (1 + ($b | fabs)) end;
def differs($path; $stated; $true):
	if $stated | near($true) then empty else "\($path): \($stated), not \($true)" end;
def per($ids; v): $ids | map({(.): v}) | add;
def least: if length == 0 then null else min end;

. as $e | [.agents[].id] as $ids | $e.baseline_ms as $base
| reduce .messages[] as $m (
	{prev: per($ids; $base), ret: per($ids; 0), tries: per($ids; 0), kept: per($ids; 0), ms: per($ids; []), bad: []};
	"messages[\($m.step)]" as $at
	| if $m.kind == "candidate" then .tries[$m.from] += 1
	elif $m.kind == "result" then
		.prev[$m.to] as $prev
		| ($m.verify.status == "pass" and $m.bench != null) as $timed
		| ($timed and $m.bench.ms < $prev * (1 - ([0.01, 2 * $m.bench.cv] | max))) as $better
		| (if $better then [1, ($prev / $m.bench.ms | log2)] | min elif $timed then -0.05
			else {compile_error: -0.1, wrong_result: -0.3, unsupported_arch: -0.05}[$m.status] end) as $r
		| .ret[$m.to] += ($r // 0)
		| if $timed then .ms[$m.to] += [$m.bench.ms] else . end
		| if $better then .prev[$m.to] = $m.bench.ms | .kept[$m.to] += 1 else . end
		| .bad += [differs("\($at).reward"; $m.reward; $r), differs("\($at).prev_best_ms"; $m.prev_best_ms; $prev),
			(if $m.kept == $better and ($timed | not or ($m.status == if $better then "improved" else "no_improvement" end))
				then empty else "\($at).kept" end)]
	elif ($m.kind | IN("merge", "redirect", "handoff")) and $m.best_ms then
		reduce ($ids[] | select($m.to == null or . == $m.to)) as $a (.; .prev[$a] = ([.prev[$a], $m.best_ms] | min))
	else . end)
| ([$base, .ms[][]] | min) as $best | (($base / $best | log2) / 4) as $lead
| .bad[], ($e.messages[-1] | differs("verdict.reward"; .reward; $lead), differs("verdict.best_ms"; .best_ms; $best)),
	differs("best_ms"; $e.best_ms; $best), differs("speedup"; $e.speedup; $base / $best),
	differs("elapsed_s"; $e.elapsed_s; $e.messages[-1].t), differs("return"; $e.return; ([.ret[]] | add) + $lead),
	(.ret as $ret | .tries as $tries | .kept as $kept | .ms as $ms | $e.agents[] | differs("\(.id).return"; .return; $ret[.id]),
		differs("\(.id).tries"; .tries; $tries[.id]), differs("\(.id).kept"; .kept; $kept[.id]),
		differs("\(.id).best_ms"; .best_ms; $ms[.id] | least))
