#!/bin/sh
# Look at the workers and act on a platform, over HTTP, with curl alone.
#   API_URL=http://host:3989 ops/worker-control.sh status
#   ops/worker-control.sh restart|pause|resume PLATFORM      (and API_KEY, where the gateway asks for one)
# The answer of the gateway is printed as it is.
set -u
API_URL=${API_URL:-http://localhost:3989}

usage() {
    echo "worker-control: write status, or restart, pause or resume and a PLATFORM" >&2
    exit 2
}

case ${1:-} in
status)
    [ $# -eq 1 ] || usage
    method=GET path=/api/v2/workers/status
    ;;
restart | pause | resume)
    [ $# -eq 2 ] || usage
    case $2 in
    '' | *[!a-z0-9_-]*) echo "worker-control: $2 is not the name of a platform" >&2 && exit 2 ;;
    esac
    method=POST path=/api/platforms/$2/$1
    [ "$1" = restart ] && path=/api/v2/workers/$2/restart
    ;;
*) usage ;;
esac

# The key goes in by stdin: everybody may list the arguments of a program.
answer=$(printf '%s' "${API_KEY:+header = \"Authorization: Bearer $API_KEY\"}" |
    curl -sS -K - -X "$method" --max-time 20 --noproxy localhost,127.0.0.1 -w '\n%{http_code}' "$API_URL$path") || {
    echo "worker-control: no answer from $API_URL; start it with \`python3 -m ops up\`, or set API_URL" >&2
    exit 1
}
status=${answer##*
}
printf '%s\n' "${answer%
*}"
case $status in
2??) ;;
401) echo "worker-control: $API_URL asks for a key that it knows; set API_KEY" >&2 && exit 1 ;;
*) echo "worker-control: $API_URL answered $status" >&2 && exit 1 ;;
esac
