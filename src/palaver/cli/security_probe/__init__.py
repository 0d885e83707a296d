"""`palaver doctor --attack`: send harmless attacks to a server and report which it withstands.

Modules:

    probe                 permission, the key, the order of attacks, and the report
    attack                what an attack is, what it requires, and how its attempts are judged
    raw_http              one request, byte for byte, and its reply
    access_attacks        S1 and S2: Host, Origin, forms, CORS, forwarded headers, paths, sockets; keys and logging in
    input_attacks         S3 to S6: names, paths and header lines; odd bodies; histories and internal URLs
    disclosure_attacks    S7 and S8: headers of the page, errors, echoed keys

Harmless means that a sound server refuses every request before it does anything: requests name workflows that do not
exist, ask for dry runs, and point at addresses where no server is. Nothing is sent in volume, and nothing is stored.
"""
