// @vitest-environment happy-dom
/**
 * Content from workflows, tools and file names is shown as text only: no script runs, nothing is requested, and no
 * link is misleading.
 */
import './code-edit-view'; // Loaded up front, so that the lazy component renders at once.
import { Tooltip } from 'radix-ui';
import { act, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { InputsContext } from './code-edit';
import type { ChatMessage, ChatPart } from './message';
import { MessageView } from './message-view';

const BIDI_TEXT = '\u202Egnp.exe\u202C \u2066x\u2069';
const PAYLOADS = [
  '<script>window.hurt = 1</script>',
  '<img src=x onerror="window.hurt = 1">',
  '<img src="https://foreign.example/a.png">',
  '<svg onload="window.hurt = 1"><use href="https://foreign.example/#x"/></svg>',
  '<math><mi xlink:href="javascript:window.hurt=1">x</mi></math>',
  '<iframe srcdoc="<script>window.hurt=1</script>"></iframe>',
  '<a href="javascript:window.hurt=1">x</a><style>@import "https://foreign.example/a.css"</style>' +
    '<base href="https://foreign.example/">',
  '<form action="https://foreign.example"><button formaction="javascript:1">x</button></form>',
  '[x](javascript:window.hurt=1) [y](JaVaScRiPt:1) [z](&#106;avascript:1) ' +
    '[t](\u0001javascript:1) [n](java\nscript:1) [v](vbscript:1)',
  '[x](data:text/html;base64,PHNjcmlwdD4=) <javascript:window.hurt=1> [f](file:///etc/passwd) ' +
    '[b](blob:https://foreign.example/1) [w](//foreign.example) [r](/api/keys)',
  '![x](https://foreign.example/a.png) ![y](javascript:1) ![z](data:image/svg+xml;base64,PHN2Zz4=) ' +
    '![w](//foreign.example/a.png) ![h](/api/bootstrap) ![p](data:image/png;base64,AA" onerror="1)',
  '[a]: javascript:window.hurt=1\n\n[click][a] ![pic][b]\n\n[b]: https://foreign.example/b.png',
  '```"><script>window.hurt=1</script>\n</code></pre><script>window.hurt=1</script>\n```',
  '| <script>1</script> |\n|---|\n| ![x](https://foreign.example/t.png) |',
  '"\'><svg/onload=1> &lt;script&gt; &#60;script&#62; ${1} {{1}} <%= 1 %>',
  BIDI_TEXT,
  '__proto__',
  'constructor',
  '\u0000\uFFFE\uD800',
];
const LINKS = [
  'https://foreign.example',
  'javascript:window.hurt=1',
  'data:text/html,<script>1</script>',
  'data:text/html;base64,PHNjcmlwdD4=',
  'data:image/svg+xml;base64,PHN2Zz4=',
  '//foreign.example/x',
  '/api/files/../keys',
  '/api/keys',
  'x',
  '',
];

/** Every field of a message that is shown, filled with the same text. */
function messageWith(x: string, url: string): ChatMessage {
  const call = { type: 'dynamic-tool' as const, toolName: x };
  const value = { [x]: x, list: [x, { [x]: [x] }] };
  const parts: ChatPart[] = [
    { type: 'text', text: x },
    {
      type: 'text',
      text: `**${x}**\n\n- ${x}\n\n> ${x}\n\n\`${x}\``,
      providerMetadata: { palaver: { refusal: true } },
    },
    { type: 'reasoning', text: x },
    { ...call, toolCallId: '1', state: 'input-streaming', input: undefined, rawInput: x },
    { ...call, toolCallId: '2', state: 'output-available', input: value, output: x },
    { ...call, toolCallId: '3', state: 'output-available', input: x, output: value },
    { ...call, toolCallId: '4', state: 'output-error', input: value, errorText: x },
    { ...call, toolCallId: '5', state: 'approval-requested', input: value, approval: { id: x } },
    { ...call, toolCallId: '6', state: 'output-denied', input: value, approval: { id: x, approved: false, reason: x } },
    { type: `tool-${x}`, toolCallId: '7', state: 'input-available', input: value },
    { type: 'source-url', sourceId: x, url, title: x },
    { type: 'source-url', sourceId: `${x}2`, url: x, title: x },
    { type: 'source-document', sourceId: `${x}3`, mediaType: x, title: x, filename: x },
    { type: 'file', mediaType: 'image/png', url, filename: x },
    { type: 'file', mediaType: x, url: x, filename: x },
    {
      type: 'data-code-edit',
      data: {
        language: x,
        target: x,
        old: x,
        new: `${x}\n${x}`,
        syntax: { ok: false, errors: [x, { message: x }] },
        edits: [{ state: x, reason: x }],
        input: `/${x}`,
        findings: [{ rule: x, level: x, line: 1, message: x }],
      },
    },
    { type: 'data-notice', data: { level: x, text: x } },
    { type: 'data-code-edit', data: x },
    { type: 'data-file', data: { file_id: x, media_type: 'image/png', filename: x } },
    { type: 'data-output', data: value },
    { type: `data-${x}`, data: x },
  ];
  return {
    id: x,
    role: 'assistant',
    parts,
    metadata: { error: { code: x, message: x }, status: 'failed', nodes: ['a'], siblings: ['a', x], seconds: 1 },
  };
}

const ACTIONS = {
  rate: async () => {},
  edit: async () => {},
  remove: async () => {},
  rerun: async () => {},
  show: async () => {},
  fork: async () => {},
  approve: async () => {},
};

const NO_INPUTS = {};

let unmount: (() => void) | undefined;
afterEach(() => {
  unmount?.();
  document.body.replaceChildren();
});
beforeAll(() => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
});

async function renderNode(node: ReactNode): Promise<HTMLElement> {
  const container = document.createElement('div');
  document.body.append(container);
  const root = createRoot(container);
  await act(async () => root.render(<Tooltip.Provider>{node}</Tooltip.Provider>));
  unmount = () => act(() => root.unmount());
  return container;
}

/** Expand everything, including nested parts. */
async function openAll(container: HTMLElement): Promise<void> {
  for (let round = 0; round < 6; round += 1) {
    const collapsed = [...container.querySelectorAll<HTMLElement>('[aria-expanded=false]')].filter(
      (button) => button.getAttribute('aria-haspopup') === null,
    );
    if (collapsed.length === 0) return;
    await act(async () => collapsed.forEach((button) => button.click()));
  }
}

const ALLOWED_TAGS = new Set(
  (
    'A ABBR ARTICLE B BLOCKQUOTE BR BUTTON CIRCLE CODE DEL DIV ELLIPSE EM FIGCAPTION FIGURE FORM ' +
    'HR IMG INPUT LI LINE OL P PATH POLYLINE POLYGON PRE RECT SECTION SPAN STRONG SVG TABLE TBODY TD TEXTAREA TH THEAD TR ' +
    'UL'
  ).split(' '),
);

/** Elements with forbidden tags, attributes or links, and other signs of harm. */
function findHarm(container: HTMLElement): string[] {
  const problems: string[] = [];
  for (const element of container.querySelectorAll('*')) {
    const forbidden = [...element.attributes].filter(({ name, value }) => !isAllowed(name, value));
    const link =
      element.tagName !== 'A' ||
      element.hasAttribute('download') ||
      (element.getAttribute('rel') === 'noopener noreferrer nofollow' && element.getAttribute('target') === '_blank');
    if (!ALLOWED_TAGS.has(element.tagName.toUpperCase()) || forbidden.length > 0 || !link)
      problems.push(element.outerHTML.slice(0, 300));
  }
  if (/[\u202A-\u202E\u2066-\u2069]/.test(container.textContent)) problems.push('a turned text');
  if ('hurt' in window) problems.push('a script ran');
  return problems;
}

function isAllowed(name: string, value: string): boolean {
  if (name === 'src')
    return /^data:image\/(png|jpeg|gif|webp);base64,[\w+/=]+$|^\/api\/files\/file_[0-9a-z]+$/.test(value);
  if (name === 'href') return /^(https?:\/\/|mailto:)|^\/api\/files\/file_[0-9a-z]+$/.test(value);
  return !/^on|^(srcdoc|srcset|style|action|formaction|background|poster|xlink:href|ping)$/.test(name);
}

describe('a hostile text', () => {
  it.each(PAYLOADS.map((payload, index) => [index, payload] as const))(
    'is inert in every field of a message (%i)',
    async (index, payload) => {
      const inputs = {
        subscribe: () => () => {},
        read: () => NO_INPUTS,
        defaults: () => NO_INPUTS,
        change: () => {},
      };
      const message = messageWith(payload, LINKS[index % LINKS.length] ?? '');
      const container = await renderNode(
        <InputsContext value={inputs}>
          <MessageView message={message} streaming={false} actions={ACTIONS} />
        </InputsContext>,
      );
      await openAll(container);

      expect(container.querySelector('figcaption')).not.toBeNull(); // The lazy diff view has rendered.
      expect(findHarm(container)).toEqual([]);
    },
  );

  it('is inert while it streams, cut anywhere', async () => {
    const text = PAYLOADS.join('\n\n');
    for (let length = 5; length < text.length; length += 37) {
      const container = await renderNode(
        <MessageView
          message={{ id: 'x', role: 'assistant', parts: [{ type: 'text', text: text.slice(0, length) }] }}
          streaming
          actions={ACTIONS}
        />,
      );
      expect(findHarm(container)).toEqual([]);
      unmount?.();
    }
  }, 60_000);

  it.each(['user', 'system'] as const)(
    'is inert in a %s message',
    async (role) => {
      for (const payload of PAYLOADS) {
        const message = messageWith(payload, 'x');
        const parts = message.parts.filter((part) => part.type === 'text' || part.type === 'file');
        const container = await renderNode(
          <MessageView message={{ ...message, parts, role }} streaming={false} actions={ACTIONS} />,
        );
        expect(findHarm(container)).toEqual([]);
        unmount?.();
      }
    },
    60_000,
  );

  it.each(LINKS)('is not loaded as a file: %s', async (url) => {
    const files: ChatPart[] = ['image/png', 'image/svg+xml', 'text/html', 'application/pdf'].map((mediaType) => ({
      type: 'file',
      mediaType,
      url,
      filename: 'a',
    }));
    const container = await renderNode(
      <MessageView message={{ id: 'x', role: 'assistant', parts: files }} streaming={false} actions={ACTIONS} />,
    );

    expect(findHarm(container)).toEqual([]);
    expect(container.querySelector('img')).toBeNull();
  });

  it('cannot hide the host of a link behind its label', async () => {
    const text =
      '[https://bank.example](https://foreign.example) ' +
      '[bank.example@foreign.example](https://bank.example@foreign.example/)';
    const container = await renderNode(
      <MessageView
        message={{ id: 'x', role: 'assistant', parts: [{ type: 'text', text }] }}
        streaming={false}
        actions={ACTIONS}
      />,
    );

    expect(container.textContent).toContain('https://bank.example (foreign.example)');
    expect(container.textContent).toContain('bank.example@foreign.example (foreign.example)');
  });
});

describe('a huge text', () => {
  it.each([
    ['one line of a megabyte', 'x'.repeat(1_000_000)],
    ['a megabyte of code', `\`\`\`js\n${'x'.repeat(1_000_000)}`],
    ['deep quotes', Array.from({ length: 100 }, (_, depth) => `${'> '.repeat(depth)}x`).join('\n')],
    ['deep lists', Array.from({ length: 100 }, (_, depth) => `${'  '.repeat(depth)}- x`).join('\n')],
  ])('with %s is shown only in part', async (_, text) => {
    const parts: ChatPart[] = [
      { type: 'text', text },
      { type: 'reasoning', text },
      { type: 'data-output', data: { text } },
      {
        type: 'dynamic-tool',
        toolName: text,
        toolCallId: '1',
        state: 'output-available',
        input: text,
        output: { text },
      },
    ];
    const container = await renderNode(
      <MessageView
        message={{ id: 'x', role: 'assistant', metadata: { error: { message: text } }, parts }}
        streaming={false}
        actions={{}}
      />,
    );
    await openAll(container);

    expect(container.textContent.length).toBeLessThan(200_000);
    expect(findHarm(container)).toEqual([]);
  });
});
