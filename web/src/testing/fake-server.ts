/** Test helper: a fake server with one thread, whose workflow the test drives. */
import { vi } from 'vitest';
import type { Node, Part } from '@/api/client';
import { ConnectionLost, type SocketRequest, type Notice } from '@/api/socket';
import { socket } from '@/api/stream-fetch';
import { withoutNodes } from '@/pages/playground/chat/branch';

interface FakeRun {
  id: string;
  answers: string | null;
  message: string;
  text: string;
  chunks: object[];
  readers: Set<ReadableStreamDefaultController<Uint8Array>>;
  startedAt: string | null;
}

const encoder = new TextEncoder();
const frame = (chunk: object | string): Uint8Array =>
  encoder.encode(`data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`);

const partText = (part: Part): string => ('text' in part ? part.text : `[${part.type}]`);

export class FakeServer {
  nodes: Node[] = [];
  head: string | null = null;
  workflow = 'tutor';
  run: FakeRun | null = null;
  endedRuns: {
    id: string;
    answers: string | null;
    status: string;
    error: object | null;
    text: string;
    message: string;
  }[] = [];
  /** Requests as `METHOD path` with body and headers. */
  requests: { route: string; body: unknown; headers: Record<string, string> }[] = [];
  isOffline = false;
  /** Held requests by prefix of `METHOD path`. */
  #gates = new Map<string, Promise<void>>();
  #failing = new Map<string, Response>();
  #listeners = new Set<[(notice: Notice) => void, (connected: boolean) => void]>();

  constructor() {
    vi.stubGlobal('fetch', (path: string, init?: RequestInit) => this.#answer(path, init));
    vi.spyOn(socket, 'request').mockImplementation((request, signal) => this.#stream(request, signal));
    vi.spyOn(socket, 'listen').mockImplementation((listener, connected = () => {}) => {
      const pair: [(notice: Notice) => void, (connected: boolean) => void] = [listener, connected];
      this.#listeners.add(pair);
      return () => this.#listeners.delete(pair);
    });
  }

  holdRoute(route: string): () => void {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.#gates.set(route, gate);
    return () => {
      this.#gates.delete(route);
      release();
    };
  }
  failNext(route: string, status: number, message: string): void {
    this.#failing.set(route, Response.json({ error: { code: 'some', message } }, { status }));
  }
  notice(): void {
    for (const [listener] of this.#listeners) listener({ changed: 'thread', ref: 'conv_1' });
  }
  connected(now: boolean): void {
    for (const [, connected] of this.#listeners) connected(now);
  }

  /** Append messages below the head. */
  addNodes(...messages: (Partial<Node> & Pick<Node, 'role'> & { text?: string })[]): void {
    for (const { text, ...fields } of messages) {
      const id = fields.id ?? `m${this.nodes.length + 1}`;
      this.nodes.push(
        fakeNode({ parent: this.head, parts: text === undefined ? [] : [{ type: 'text', text }], ...fields, id }),
      );
      if (fields.status !== 'failed') this.head = id;
    }
  }

  begin(answers: string | null, more: { message?: string } = {}): FakeRun {
    if (this.run) this.end('cancelled');
    const id = `run_${this.endedRuns.length + 1}`;
    const message = more.message ?? `msg_${this.endedRuns.length + 1}_1`;
    this.run = { id, answers, message, text: '', chunks: [], readers: new Set(), startedAt: this.head };
    this.sendChunks(
      { type: 'start', messageId: message, messageMetadata: { runId: id } },
      { type: 'start-step' },
      { type: 'text-start', id: 't' },
    );
    return this.run;
  }
  sendChunks(...chunks: object[]): void {
    const run = this.run;
    if (!run) throw new Error('Nobody is speaking.');
    for (const chunk of chunks) {
      run.chunks.push(chunk);
      for (const reader of run.readers) reader.enqueue(frame(chunk));
    }
  }
  sendText(delta: string): void {
    if (this.run) this.run.text += delta;
    this.sendChunks({ type: 'text-delta', id: 't', delta });
  }
  end(status: 'finished' | 'failed' | 'cancelled' = 'finished', parts?: Part[]): void {
    const run = this.run;
    if (!run) throw new Error('Nobody is speaking.');
    const error = status === 'failed' ? { code: 'workflow_failed', message: 'The model is gone.' } : null;
    if (status === 'finished')
      this.sendChunks({ type: 'text-end', id: 't' }, { type: 'finish-step' }, { type: 'finish', finishReason: 'stop' });
    else if (status === 'failed')
      this.sendChunks({ type: 'error', errorText: 'The model is gone.' }, { type: 'finish', finishReason: 'error' });
    else this.sendChunks({ type: 'abort' });
    const id = this.nodes.some((one) => one.id === run.message) ? `${run.message}.${this.nodes.length}` : run.message;
    const nodeStatus = status === 'finished' ? 'done' : status === 'failed' ? 'failed' : 'partial';
    this.nodes.push(
      fakeNode({
        id,
        parent: run.answers,
        role: 'assistant',
        run: run.id,
        status: nodeStatus,
        error,
        parts: parts ?? [{ type: 'text', text: run.text }],
      }),
    );
    if (nodeStatus !== 'failed' && (this.head === run.answers || this.head === run.startedAt)) this.head = id;
    this.endedRuns.push({ id: run.id, answers: run.answers, status, error, text: run.text, message: run.message });
    this.run = null;
    for (const reader of run.readers) {
      reader.enqueue(frame('[DONE]'));
      reader.close();
    }
    this.notice();
  }
  /** Break the connection; the run continues. */
  lose(): void {
    for (const reader of this.run?.readers ?? []) reader.error(new ConnectionLost());
    this.run?.readers.clear();
  }

  branch(end: string | null): Node[] {
    const branch: Node[] = [];
    for (let at = end; at !== null;) {
      const current = this.nodes.find((one) => one.id === at);
      if (!current) break;
      branch.unshift({
        ...current,
        siblings: this.nodes.filter((one) => one.parent === current.parent).map((one) => one.id),
      });
      at = current.parent;
    }
    return branch;
  }
  /** All nodes as text, for assertions. */
  get tree(): string[] {
    return this.nodes.map((one) => `${one.parent ?? '-'} > ${one.id} ${one.role} ${one.parts.map(partText).join('')}`);
  }
  posted(): unknown[] {
    return this.requests.filter(({ route }) => route === 'POST /api/threads/conv_1/messages').map(({ body }) => body);
  }

  async #answer(path: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(path, 'http://here.test');
    const method = init.method ?? 'GET';
    const route = `${method} ${url.pathname}`;
    const body = init.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : null;
    this.requests.push({ route, body, headers: {} });
    await this.#wait(route);
    if (this.isOffline) throw new TypeError('Failed to fetch');
    const failing = this.#failing.get(route);
    this.#failing.delete(route);
    return failing ?? this.#route(method, url, body ?? {});
  }

  async #wait(route: string): Promise<void> {
    for (const [prefix, gate] of this.#gates) if (route.startsWith(prefix)) await gate;
  }

  #route(method: string, url: URL, body: Record<string, unknown>): Response {
    const at = url.pathname;
    if (at === '/api/threads/conv_1') {
      if (method === 'PATCH') this.#patch(body);
      if (
        body['head'] &&
        this.nodes.find((one) => one.id === (body['head'] as { through: string }).through)?.status === 'failed'
      )
        return Response.json({ error: { code: 'invalid_value', message: 'Failed.' } }, { status: 422 });
      return Response.json({ id: 'conv_1', workflow: this.workflow, head: this.head, run: this.run?.id ?? null });
    }
    if (at === '/api/threads/conv_1/messages')
      return method === 'POST' ? this.#addMessages(body) : this.#page(url.searchParams);
    if (at === '/api/runs')
      return Response.json({
        data: this.endedRuns.slice(-1).map(({ id, answers, status, error }) => ({ id, answers, status, error })),
      });
    if (at.startsWith('/api/runs/')) return this.#run(at.slice('/api/runs/'.length), method);
    if (at.endsWith('/stop')) {
      if (this.run) this.end('cancelled');
      return new Response(null, { status: 204 });
    }
    if (method === 'DELETE') {
      const id = at.split('/').at(-1) ?? '';
      const removed = this.nodes.find((one) => one.id === id);
      this.nodes = withoutNodes(this.nodes, [id]);
      if (this.head === id) this.head = removed?.parent ?? null;
      return new Response(null, { status: 204 });
    }
    if (at.endsWith('/duplicate')) return Response.json({ id: 'conv_2', ...body }, { status: 201 });
    return Response.json({ error: { code: 'not_found', message: `No ${method} ${at}.` } }, { status: 404 });
  }

  #patch(body: Record<string, unknown>): void {
    if (typeof body['workflow'] === 'string') this.workflow = body['workflow'];
    const through = (body['head'] as { through?: string } | undefined)?.through;
    if (!through || this.nodes.find((one) => one.id === through)?.status === 'failed') return;
    let leaf = through;
    for (let below; (below = this.nodes.findLast((one) => one.parent === leaf && one.status !== 'failed'));)
      leaf = below.id;
    this.head = leaf;
  }

  #page(query: URLSearchParams): Response {
    const at = query.get('at') ?? 'head';
    const branch = this.branch(at === 'head' ? this.head : at);
    const limit = Number(query.get('limit'));
    const streaming =
      this.run && branch.at(-1)?.id === this.run.answers
        ? [
            fakeNode({
              id: this.run.message,
              parent: this.run.answers,
              role: 'assistant',
              run: this.run.id,
              status: 'streaming',
            }),
          ]
        : [];
    return Response.json({ data: [...branch.slice(-limit), ...streaming], next: null });
  }

  #addMessages(body: Record<string, unknown>): Response {
    const incoming = body['messages'] as (Pick<Node, 'role' | 'parts'> & { id?: string })[];
    const replaced = this.nodes.find((one) => one.id === body['replaces']);
    this.head = replaced ? replaced.parent : (body['parent'] as string | null);
    const before = this.nodes.length;
    for (const message of incoming) {
      const exists = this.nodes.some((one) => one.id === message.id);
      this.addNodes({ role: message.role, parts: message.parts, ...(message.id && !exists ? { id: message.id } : {}) });
    }
    this.notice();
    return Response.json(
      { messages: this.nodes.slice(before).map((one) => this.branch(one.id).at(-1)) },
      { status: 201 },
    );
  }

  #run(id: string, method: string): Response {
    if (method === 'PUT') return Response.json({});
    if (id === this.run?.id)
      return Response.json({ id, answers: this.run.answers, status: 'running', created_at: '2026-01-01T00:00:00Z' });
    const run = this.endedRuns.find((one) => one.id === id);
    if (!run) return Response.json({ error: { code: 'not_found', message: 'No run.' } }, { status: 404 });
    const messages = run.text
      ? [{ id: run.message, role: 'assistant', parts: [{ type: 'text', text: run.text }] }]
      : [];
    return Response.json({ ...run, created_at: '2026-01-01T00:00:00Z', reply: { messages } });
  }

  async #stream({ method, path, headers, body }: SocketRequest, signal?: AbortSignal | null): Promise<Response> {
    const route = `${method} ${path}`;
    this.requests.push({ route, body: body ? (JSON.parse(body) as unknown) : null, headers });
    await this.#wait(route);
    signal?.throwIfAborted();
    if (this.isOffline) throw new ConnectionLost();
    const failing = this.#failing.get(route);
    this.#failing.delete(route);
    if (failing) return failing;
    if (method === 'GET' && !this.run) return new Response(null, { status: 204 });
    const last = (body ? (JSON.parse(body) as { messages: { id: string; role: string }[] }).messages : []).at(-1);
    const run =
      method === 'GET' && this.run
        ? this.run
        : this.begin(headers['x-palaver-answer'] ?? null, last?.role === 'assistant' ? { message: last.id } : {});
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (const chunk of run.chunks) controller.enqueue(frame(chunk));
        run.readers.add(controller);
        signal?.addEventListener('abort', () => {
          run.readers.delete(controller);
          controller.error(new DOMException('Given up.', 'AbortError'));
        });
      },
    });
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
  }
}

/** Test helper: a node with defaults. */
export const fakeNode = (fields: Partial<Node> & Pick<Node, 'id' | 'role'>): Node => ({
  parent: null,
  parts: [],
  name: null,
  metadata: {},
  origin: fields.run ? 'run' : 'client',
  run: null,
  status: 'done',
  error: null,
  siblings: [fields.id],
  feedback: { up: 0, down: 0 },
  usage: null,
  seconds: null,
  created_at: '2026-01-01T00:00:00Z',
  ...fields,
});
