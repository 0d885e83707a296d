"""`palaver doctor --attack`: send harmless attacks to a server and report which it withstands.

Modules:

    probe                 permission, the key, the order of attacks, and the report
    attack                attacks and their attempts, and raw HTTP requests
    access_attacks        Host, Origin, forms, CORS, forwarded headers, paths, sockets; keys and login
    content_attacks       names, bodies, histories and internal URLs; headers of the page, errors, echoed keys

Harmless means that a sound server refuses every request before it does anything: requests name workflows that do not
exist, ask for dry runs, and point at addresses where no server is. Nothing is sent in volume, and nothing is stored.
"""
