curl http://localhost:8642/eliza/invocations \
  -H 'content-type: application/json' \
  -d '{"input": [{"role": "user", "content": "I need a holiday"}]}'

# As it is said: one line of data for each event.
curl --no-buffer http://localhost:8642/eliza/invocations \
  -H 'content-type: application/json' \
  -d '{"input": [{"role": "user", "content": "I need a holiday"}], "stream": true}'
