"""Agenta's protocol, served and called: /inspect, /invoke, /run and /test.

inspect   describe a workflow
invoke    adapter and client of POST /{w}/invoke
run       adapter and client of POST /{w}/run and /{w}/test
request   parse a request body into a Call and an AgentaRequest
response  headers, outputs and error documents
records   the stream records of /invoke, encoded and decoded
"""
