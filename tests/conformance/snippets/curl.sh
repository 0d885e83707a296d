curl http://localhost:8642/eliza/invocations \
  -H 'content-type: application/json' \
  -d '{"input": [{"role": "user", "content": "I need a holiday"}]}'

# Streamed: one line of data per event.
curl --no-buffer http://localhost:8642/eliza/invocations \
  -H 'content-type: application/json' \
  -d '{"input": [{"role": "user", "content": "I need a holiday"}], "stream": true}'
