"""How an evaluation looks as a file: light or dark, as the reader has it."""

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #1a7f4b; --bad: #b3261e; --odd: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd39a; --bad: #ff8a80; --odd: #f0c060; } }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: .9rem; margin: 1rem 0 .25rem; }
.note, small { opacity: .7; } .note { margin: .25rem 0; font-size: .9rem; }
.bad { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-weight: 600; font-size: .85rem; opacity: .7; } tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
svg { width: 8rem; height: .6rem; background: var(--soft); border-radius: 2px; vertical-align: middle; }
svg .value { fill: #46c8; } svg .sure { fill: currentColor; }
.badge { font-size: .8rem; font-weight: 600; padding: .1rem .5rem; border: 1px solid; border-radius: 1rem; }
.better, .same, .succeeded, .mark.passed { color: var(--good); }
.worse, .failed, .mark.failed, .mark.error { color: var(--bad); }
.unclear, .partly, .cancelled { color: var(--odd); }
.mark { display: inline-block; min-width: 1.1em; text-align: center; font-weight: 700; }
.mark.flaky { outline: 2px dotted var(--odd); border-radius: 3px; }
.marks { padding-right: .75rem; }
details.row { border-top: 1px solid var(--line); content-visibility: auto; contain-intrinsic-size: auto 2rem; }
details.row > summary { padding: .35rem 0; cursor: pointer; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
details.row > div { padding: 0 0 1rem 1.5rem; }
details:target > summary { background: var(--soft); }
pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, monospace;
  unicode-bidi: plaintext; }
.message { margin: .25rem 0; padding: .4rem .7rem; border: 1px solid var(--line); border-radius: .4rem; }
.message b { font-size: .8rem; opacity: .7; }
a { color: inherit; }
"""
