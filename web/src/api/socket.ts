/**
 * One WebSocket for all of a tab's streams (a browser opens six connections to a host; six streaming cells would leave
 * none for stop). `request` answers with an ordinary Response, so that no caller notices. Knows no React, no protocol.
 */
export interface Notice {
  changed: string;
  ref: string;
  run?: string;
}

type Frame =
  | { id: number; status: number; headers: Record<string, string> }
  | { id: number; data: string }
  | { id: number; end: true }
  | { id: number; error: { code: string; message: string } }
  | Notice;

interface Open {
  answer: (response: Response) => void;
  fail: (error: Error) => void;
  body?: ReadableStreamDefaultController<Uint8Array>;
}

export interface Asked {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

/** The connection went away under a request; the run it asked for may well go on. */
export class ConnectionLost extends Error {
  constructor() {
    super('The connection to the server was lost.');
    this.name = 'ConnectionLost';
  }
}

/** No socket can be had now; nothing was sent. */
export class NoSocket extends Error {
  constructor() {
    super('No socket to the server.');
    this.name = 'NoSocket';
  }
}

const encoder = new TextEncoder();

export class Socket {
  #url: string;
  #make: (url: string) => WebSocket;
  #live: Promise<WebSocket> | null = null;
  #open = new Map<number, Open>();
  #next = 1;
  #listeners = new Set<(notice: Notice) => void>();
  #connected = new Set<(connected: boolean) => void>();
  #kept = false;
  #wait = 250;

  constructor(url: string, make: (url: string) => WebSocket = (address) => new WebSocket(address)) {
    this.#url = url;
    this.#make = make;
  }

  /** Notices of changed things; the socket is kept open while somebody listens. */
  listen(listener: (notice: Notice) => void, connected: (connected: boolean) => void = () => {}): () => void {
    this.#listeners.add(listener);
    this.#connected.add(connected);
    this.#kept = true;
    void this.#connect().catch(() => {});
    return () => {
      this.#listeners.delete(listener);
      this.#connected.delete(connected);
      this.#kept = this.#listeners.size > 0;
    };
  }

  /** One request over the socket. Rejects when no socket can be had (the caller then uses plain fetch). */
  async request(asked: Asked, signal?: AbortSignal | null): Promise<Response> {
    signal?.throwIfAborted();
    const socket = await this.#connect().catch(() => {
      throw new NoSocket();
    });
    signal?.throwIfAborted();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const opened: Open = { answer: resolve, fail: reject };
      this.#open.set(id, opened);
      signal?.addEventListener('abort', () => this.#abort(id, socket), { once: true });
      socket.send(JSON.stringify({ id, ...asked }));
    });
  }

  #connect(): Promise<WebSocket> {
    this.#live ??= new Promise((resolve, reject) => {
      const socket = this.#make(this.#url);
      socket.addEventListener('open', () => {
        this.#wait = 250;
        for (const tell of this.#connected) tell(true);
        resolve(socket);
      });
      socket.addEventListener('message', (event: MessageEvent<string>) => this.#take(JSON.parse(event.data) as Frame));
      socket.addEventListener('close', () => {
        reject(new ConnectionLost());
        this.#lost();
      });
    });
    return this.#live;
  }

  #lost(): void {
    this.#live = null;
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const one of open) end(one, new ConnectionLost());
    for (const tell of this.#connected) tell(false);
    if (!this.#kept) return;
    setTimeout(() => void this.#connect().catch(() => {}), this.#wait);
    this.#wait = Math.min(this.#wait * 2, 10_000);
  }

  #take(frame: Frame): void {
    if ('changed' in frame) {
      for (const listener of this.#listeners) listener(frame);
      return;
    }
    const open = this.#open.get(frame.id);
    if (!open) return;
    if ('status' in frame) this.#begin(frame.id, open, frame.status, frame.headers);
    else if ('data' in frame) open.body?.enqueue(encoder.encode(frame.data));
    else {
      this.#open.delete(frame.id);
      if ('error' in frame) end(open, new Error(frame.error.message));
      else open.body?.close();
    }
  }

  #begin(id: number, open: Open, status: number, headers: Record<string, string>): void {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        open.body = controller;
      },
      cancel: () => void this.#live?.then((socket) => this.#abort(id, socket)),
    });
    const empty = status === 204 || status === 304;
    open.answer(new Response(empty ? null : body, { status, headers }));
  }

  #abort(id: number, socket: WebSocket): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    if (socket.readyState === 1) socket.send(JSON.stringify({ id, abort: true }));
    end(open, new DOMException('The request was given up.', 'AbortError'));
  }
}

/** Before the answer began its promise fails, afterwards its body. */
function end(open: Open, error: Error): void {
  if (open.body) open.body.error(error);
  else open.fail(error);
}
