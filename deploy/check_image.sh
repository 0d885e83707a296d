#!/bin/sh
# Build the image and check it: deploy/check_image.sh NAME
#
# The container must serve a workflow, require a key, and stop when Docker asks it to.
set -eu

image=$1
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
container=palaver-check-$$
trap 'docker rm --force --volumes "$container" > /dev/null 2>&1 || true; rm -rf "$folder"' EXIT

docker build --file deploy/Dockerfile --tag "$image" .

cat > "$folder/app.py" <<'APP'
from palaver import Message, chat


@chat
def parrot(messages: list[Message]):
    """Repeats the last message."""
    return messages[-1].text
APP
chmod 755 "$folder"

docker create --name "$container" --volume "$folder:/app:ro" --publish 127.0.0.1::8642 "$image" > /dev/null
key=$(docker run --rm --volumes-from "$container" "$image" key create --scope invoke --name check)
docker start "$container" > /dev/null
url=http://$(docker port "$container" 8642/tcp | head -n 1)
curl --silent --show-error --fail --retry 60 --retry-delay 1 --retry-all-errors "$url/ready"
echo

if ! docker exec "$container" python -c 'import json, os, palaver
raise SystemExit(not all(map(os.path.exists, (json.__cached__, palaver.__cached__))))'; then
    echo "error: the modules of the image are not compiled." >&2
    exit 1
fi

status=$(curl --silent --output /dev/null --write-out '%{http_code}' "$url/parrot/inspect")
[ "$status" = 401 ] || { echo "error: a request without a key was answered with status $status." >&2; exit 1; }

answer=$(curl --silent --show-error --fail "$url/parrot/invoke" --header "authorization: Bearer $key" \
    --header 'content-type: application/json' --data '{"messages": [{"role": "user", "content": "hello"}]}')
case $answer in
*'"content":"hello"'*) ;;
*) echo "error: unexpected answer: $answer" >&2; exit 1 ;;
esac

docker stop --time 45 "$container" > /dev/null
code=$(docker inspect --format '{{.State.ExitCode}}' "$container")
[ "$code" = 0 ] || { echo "error: the server exited with code $code." >&2; exit 1; }
echo "$image works."
