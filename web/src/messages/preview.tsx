/* Temporary. */
import '../styles.css';
import { Tooltip } from 'radix-ui';
import { useEffect, useState, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import type { ChatMessage, MessageActs } from '@/chat/message';
import { Toasts } from '@/ui/toast';
import { MessageView } from './message-view';

const query = new URLSearchParams(location.search);
document.documentElement.dataset.theme = query.get('theme') ?? 'light';
const PNG = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC';
const MD = `# Quarterly report

Here is a paragraph with **bold**, *emphasis*, ~~struck~~, \`inline code\`, a [link that hides](https://evil.example/path), https://plain.example/x and [plain.example](https://plain.example), mail <me@example.org>, [bad](javascript:alert(1)) and &copy; 2026 &lt;tag&gt;.
A second line.

## Lists

- one
- two
  - nested with a longer text that will wrap on a phone because it is really quite long
  1. ordered
  2. second
- [x] done task
- [ ] open task

3. third
4. fourth

> A quote
> > nested quote

| Name | Amount | A rather long column heading | Another column | Notes |
|:-----|-------:|:---:|---|---|
| Apples | 12 | centre | \`code\` | first<br>second |
| Pears | 3.50 | x | y | a very long note that makes the table wider than the phone |

\`\`\`python
def greet(name: str) -> str:
    """Say hello."""
    # a comment
    return f"Hello, {name}! A very long line that needs scrolling because it goes on and on and on and on" if name else None
\`\`\`

\`\`\`
no language
\`\`\`

![remote](https://tracker.example/pixel.png) and ![local](${PNG})

<details><summary>html</summary>shown as text</details>

---

مرحبا بالعالم هذا نص من اليمين إلى اليسار

Reference [one][1] and \u202Eturned\u202C.

[1]: https://ref.example/a`;

const acts: MessageActs = { rate: async () => {}, edit: async () => {}, remove: async () => {}, rerun: async () => {}, show: async () => {}, fork: async () => {}, approve: async () => {} };
const said = (id: string, parts: ChatMessage['parts'], metadata: ChatMessage['metadata'] = {}, role: ChatMessage['role'] = 'assistant'): ChatMessage => ({ id, role, parts, metadata });
const tool = { type: 'dynamic-tool' as const, providerExecuted: true };
const OLD = "fn(state => state);\nget('/a');\n\n\n\n\neach('$.data', post('/b'));\n";
const ALL: ChatMessage[] = [
  said('s', [{ type: 'text', text: 'You are a careful assistant. Answer briefly.' }], {}, 'system'),
  said('u', [{ type: 'text', text: 'What does this picture show?\n\nAnd some `code` **as written**.' }, { type: 'file', mediaType: 'image/png', filename: 'dot.png', url: PNG }, { type: 'file', mediaType: 'application/pdf', filename: 'a-report.pdf', url: 'data:application/pdf;base64,AAAA' }], { nodes: ['b'], siblings: ['a', 'b', 'c'] }, 'user'),
  said('a', [{ type: 'reasoning', text: 'First I **look**.', state: 'done' }, { type: 'text', text: MD }, { type: 'source-url', sourceId: '1', url: 'https://docs.example/page', title: 'The documentation of things' }, { type: 'source-url', sourceId: '2', url: 'https://other.example' }, { type: 'source-document', sourceId: '3', mediaType: 'text/plain', title: 'handbook.txt' }], { usage: { inputTokens: 200, outputTokens: 112, totalTokens: 312 }, seconds: 1.42, nodes: ['x'], siblings: ['w', 'x'], feedback: { up: 2, down: 0, mine: 'up' } }),
  said('t', [
    { ...tool, toolName: 'search_docs', toolCallId: '1', state: 'output-available', input: { query: 'salesforce', limit: 5 }, output: { hits: [{ title: 'Bulk', score: 0.9 }, { title: 'Query', score: 0.7 }] } },
    { ...tool, toolName: 'get_time', toolCallId: '2', state: 'output-error', input: { tz: 'Mars/Olympus' }, errorText: 'No such time zone: Mars/Olympus' },
    { ...tool, toolName: 'delete_everything', toolCallId: '3', state: 'approval-requested', input: { path: '/srv/data', recursive: true }, approval: { id: 'ap' } },
    { ...tool, toolName: 'send_mail', toolCallId: '4', state: 'output-denied', input: { to: 'a@b.c' }, approval: { id: 'x', approved: false, reason: 'Not today' } },
    { ...tool, toolName: 'slow', toolCallId: '5', state: 'input-streaming', input: { a: 1 }, rawInput: '{"a": 1, "text": "half' },
  ] as ChatMessage['parts']),
  said('d', [
    { type: 'data-code-edit', data: { language: 'javascript', target: 'my_job', old: OLD, new: OLD.replace("get('/a')", "get('/accounts', { query: { limit: 10 } })") + "fn(s => s);\n", syntax: { ok: false, errors: [{ line: 2, message: 'unexpected token' }] }, edits: [{ state: 'applied' }, { state: 'failed', reason: 'The text was not found.' }] } },
    { type: 'data-output', data: { ok: true, items: [1, 2, { deep: { deeper: 'x'.repeat(600) } }], none: null, empty: [] } },
    { type: 'file', mediaType: 'image/png', url: 'https://tracker.example/p.png', filename: 'remote.png' },
    { type: 'text', text: 'I cannot help with that.', providerMetadata: { palaver: { refusal: true } } },
  ]),
  said('p', [{ type: 'text', text: 'A half said' }], { status: 'partial', seconds: 3 }),
  said('e', [], { error: { code: 'provider_error', message: 'The model is overloaded. Try again in a moment.' }, status: 'failed' }),
];

function Streaming(): ReactNode {
  const [n, setN] = useState(0);
  useEffect(() => { const t = setInterval(() => setN((o) => Math.min(MD.length, o + 4)), 20); return () => clearInterval(t); }, []);
  const m = said('st', [{ type: 'reasoning', text: 'hm', state: n > 100 ? 'done' : 'streaming' }, ...(n > 100 ? [{ type: 'text' as const, text: MD.slice(0, n - 100) }] : [])]);
  return <MessageView message={m} streaming={n < MD.length} acts={{}} />;
}

/** 10,000 deltas in six cells. */
function Load(): ReactNode {
  const words = 'Lorem ipsum **dolor** sit amet, `code` and [link](https://a.example) '.split(' ');
  const all = Array.from({ length: 10000 }, (_, i) => (i % 60 === 59 ? (i % 300 === 299 ? '\n\n```js\nconst a = 1;\nconst b = "x";\n```\n\n' : '\n\n') : `${words[i % words.length]} `));
  const [texts, setTexts] = useState<string>('');
  useEffect(() => {
    let i = 0;
    const step = (): void => { const rate = Number(query.get('rate') ?? 20); let t = ''; for (let k = 0; k < rate; k++) t += all[i++] ?? ''; setTexts((o) => o + t); if (i < 10000) setTimeout(step, 16); else (window as unknown as { done: boolean }).done = true; };
    step();
  }, []);
  return <div className="grid grid-cols-3">{[0, 1, 2, 3, 4, 5].map((k) => <div key={k} className="h-80 overflow-auto"><MessageView message={said(`l${k}`, [{ type: 'text', text: texts }])} streaming acts={acts} /></div>)}</div>;
}

const place = document.getElementById('root');
if (place) {
  createRoot(place).render(
    <Tooltip.Provider>
      <div className={query.has('load') ? '' : 'mx-auto max-w-3xl space-y-5 p-4'}>
        {query.has('load') ? <Load /> : query.has('stream') ? <Streaming /> : ALL.map((m) => <MessageView key={m.id} message={m} streaming={m.id === 'tx'} acts={acts} />)}
      </div>
      <Toasts />
    </Tooltip.Provider>,
  );
}
