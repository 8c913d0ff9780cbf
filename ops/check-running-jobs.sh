#!/bin/sh
# What runs and what waits, over HTTP, with curl and awk alone.
#   API_URL=http://host:3989 ops/check-running-jobs.sh      (and API_KEY, where the gateway asks for one)
set -u
API_URL=${API_URL:-http://localhost:3989}

# The key goes in by stdin: everybody may list the arguments of a program.
answer=$(printf '%s' "${API_KEY:+header = \"Authorization: Bearer $API_KEY\"}" |
    curl -sS -K - --max-time 10 --noproxy localhost,127.0.0.1 -w '\n%{http_code}' "$API_URL/api/v2/jobs/running") || {
    echo "check-running-jobs: no answer from $API_URL; start it with \`python3 -m ops up\`, or set API_URL" >&2
    exit 1
}
status=${answer##*
}
answer=${answer%
*}
case $status in
200) why= ;;
401) why="it asks for a key that it knows; set API_KEY" ;;
403) why="the key in API_KEY needs the scope read" ;;
503) why="its store is away" ;;
*) why="is API_URL right?" ;;
esac
if [ "$why" ]; then
    echo "check-running-jobs: $API_URL answered $status: $why" >&2
    exit 1
fi

printf '%s\n' "$answer" | awk '
function plain(token) {
    return token ~ /^"/ ? substr(token, 2, length(token) - 2) : token
}

{ text = text $0 }

END {
    # Cut the JSON into strings, numbers, words and brackets; what is between them carries no meaning.
    while (match(text, /"([^"\\]|\\.)*"|[][{}]|[-+.0-9A-Za-z]+/)) {
        token[++count] = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
    }
    for (i = 1; i <= count; i++) {
        if (token[i] ~ /^[[{]$/) {
            depth++
        } else if (token[i] ~ /^[]}]$/) {
            if (section == "running" && depth == 4)
                job[++jobs] = sprintf("%-20s %-58s %-20s %-25s %10s s", row["platform"], row["job_id"],
                    row["workflow_id"], row["started_at"], row["elapsed_seconds"])
            depth--
        } else if (depth == 2) {
            section = plain(token[i])
        } else if (depth > 2) {
            name = plain(token[i])
            value = plain(token[++i])
            if (section == "running") row[name] = value
            else if (section == "queued") line[++lines] = sprintf("%-20s %d", name, value)
            else if (section == "summary") summary[name] = value
        }
    }
    if (!("running_count" in summary)) {
        print "check-running-jobs: the answer is not the one of a gateway; is API_URL right?" > "/dev/stderr"
        exit 1
    }
    if (jobs) printf "%-20s %-58s %-20s %-25s %12s\n", "PLATFORM", "JOB", "WORKFLOW", "STARTED", "ELAPSED"
    for (i = 1; i <= jobs; i++) print job[i]
    if (jobs && lines) print ""
    if (lines) printf "%-20s %s\n", "PLATFORM", "WAITING"
    for (i = 1; i <= lines; i++) print line[i]
    if (jobs || lines) print ""
    printf "%d running, %d waiting\n", summary["running_count"], summary["queued_count"]
}'
