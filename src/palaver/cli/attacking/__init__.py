"""The attacks of `palaver doctor --attack`: the harmless half of the security statements, sent to a server of yours.

    wire        one request, byte for byte, and what came back
    attacks     what an attack is, what it needs, how its tries are judged
    reach       S1: Host, Origin, forms, CORS, forwarded headers, spellings of paths, sockets
    keys        S2: no key, a wrong one, two of them; logging in and its cookie
    inputs      S3: names that are code, paths to files, header lines
    bodies      S4: odd JSON, two lengths, sizes
    meanings    S5 and S6: file URLs, results without a call, connections to the inner network
    shown       S7 and S8: headers of the page, errors, secrets said back
    asking      permission, the key, the order, the list

Harmless means: every request is one that a sound server refuses before it does anything; it names workflows that nobody
has, asks for dry runs, and points at addresses where nobody is. Nothing is sent in numbers, and nothing stays.
"""
