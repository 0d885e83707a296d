/**
 * One WebSocket for all streams of a tab: browsers open six connections to a host, and six streaming cells would leave
 * none for stop. `request` resolves to an ordinary Response. Independent of React and of the protocols.
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

interface PendingRequest {
  socket: WebSocket;
  answer: (response: Response) => void;
  fail: (error: Error) => void;
  body?: ReadableStreamDefaultController<Uint8Array>;
}

export interface SocketRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

/** The connection was lost during a request; its run may continue. */
export class ConnectionLost extends Error {
  constructor() {
    super('The connection to the server was lost.');
    this.name = 'ConnectionLost';
  }
}

/** No socket is available; nothing was sent. */
export class SocketUnavailable extends Error {
  constructor() {
    super('No socket to the server.');
    this.name = 'NoSocket';
  }
}

/** Reconnect delays; the delay resets once a connection has lasted MAX_RECONNECT_DELAY_MS. */
const MIN_RECONNECT_DELAY_MS = 250;
const MAX_RECONNECT_DELAY_MS = 10_000;
/** A proxy that drops upgrade requests never answers. */
const CONNECT_TIMEOUT_MS = 4000;
/** Status codes for which the Fetch standard forbids a body. */
const STATUSES_WITHOUT_BODY = new Set([204, 205, 304]);
const READY_STATE_OPEN = 1;

const encoder = new TextEncoder();

export class Socket {
  #url: string;
  #make: (url: string) => WebSocket;
  #live: Promise<WebSocket> | null = null;
  #open = new Map<number, PendingRequest>();
  #next = 1;
  #listeners = new Set<(notice: Notice) => void>();
  #connected = new Set<(connected: boolean) => void>();
  #wait = MIN_RECONNECT_DELAY_MS;

  constructor(url: string, make: (url: string) => WebSocket = (address) => new WebSocket(address)) {
    this.#url = url;
    this.#make = make;
  }

  /** Subscribe to notices and to the connection state. The socket stays open while there are listeners. */
  listen(listener: (notice: Notice) => void, connected: (connected: boolean) => void = () => {}): () => void {
    // Wrapped, so that one function can subscribe twice and unsubscribe separately.
    const onNotice = (notice: Notice) => listener(notice);
    const onConnection = (now: boolean) => connected(now);
    this.#listeners.add(onNotice);
    this.#connected.add(onConnection);
    void this.#connect().catch(() => {});
    return () => {
      this.#listeners.delete(onNotice);
      this.#connected.delete(onConnection);
    };
  }

  /**
   * Send a request over the socket. Rejects with SocketUnavailable if there is none; the caller then uses plain fetch.
   */
  async request(request: SocketRequest, signal?: AbortSignal | null): Promise<Response> {
    signal?.throwIfAborted();
    const socket = await this.#connect().catch(() => {
      throw new SocketUnavailable();
    });
    signal?.throwIfAborted();
    if (socket.readyState !== READY_STATE_OPEN) throw new SocketUnavailable();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#open.set(id, { socket, answer: resolve, fail: reject });
      signal?.addEventListener('abort', () => this.#abort(id), { once: true });
      socket.send(JSON.stringify({ id, ...request }));
    });
  }

  #connect(): Promise<WebSocket> {
    this.#live ??= this.#attempt().catch((error: unknown) => {
      this.#lost();
      throw error;
    });
    return this.#live;
  }

  /** Open a socket and handle its messages and its end. */
  #attempt(): Promise<WebSocket> {
    return new Promise((resolve, reject) => {
      const socket = this.#make(this.#url);
      let calm: ReturnType<typeof setTimeout> | undefined;
      const impatience = setTimeout(() => {
        reject(new ConnectionLost());
        socket.close();
      }, CONNECT_TIMEOUT_MS);
      socket.addEventListener('open', () => {
        clearTimeout(impatience);
        // Don't reset at once: a server that accepts and closes would be retried four times a second.
        calm = setTimeout(() => {
          this.#wait = MIN_RECONNECT_DELAY_MS;
        }, MAX_RECONNECT_DELAY_MS);
        resolve(socket);
        for (const notify of this.#connected) notify(true);
      });
      socket.addEventListener('message', (event: MessageEvent<string>) => this.#take(JSON.parse(event.data) as Frame));
      socket.addEventListener('close', () => {
        clearTimeout(impatience);
        // Closed before it opened is a failed attempt; afterwards a lost connection.
        if (calm === undefined) reject(new ConnectionLost());
        else this.#lost();
        clearTimeout(calm);
      });
    });
  }

  #lost(): void {
    this.#live = null;
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const one of open) failRequest(one, new ConnectionLost());
    for (const notify of this.#connected) notify(false);
    if (this.#listeners.size === 0) return;
    setTimeout(() => {
      if (this.#listeners.size > 0) void this.#connect().catch(() => {});
    }, this.#wait);
    this.#wait = Math.min(this.#wait * 2, MAX_RECONNECT_DELAY_MS);
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
      if ('error' in frame)
        failRequest(
          open,
          frame.error.code === STREAM_INTERRUPTED ? new ConnectionLost() : new Error(frame.error.message),
        );
      else if (open.body) open.body.close();
      else open.fail(new ConnectionLost());
    }
  }

  #begin(id: number, open: PendingRequest, status: number, headers: Record<string, string>): void {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        open.body = controller;
      },
      cancel: () => this.#abort(id),
    });
    open.answer(new Response(STATUSES_WITHOUT_BODY.has(status) ? null : body, { status, headers }));
  }

  #abort(id: number): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    if (open.socket.readyState === READY_STATE_OPEN) open.socket.send(JSON.stringify({ id, abort: true }));
    failRequest(open, new DOMException('The request was given up.', 'AbortError'));
  }
}

/** The error code of a response that the server could not complete; its run may continue. */
const STREAM_INTERRUPTED = 'interrupted';

/** Reject the response, or error its body once that has started. */
function failRequest(open: PendingRequest, error: Error): void {
  if (open.body) open.body.error(error);
  else open.fail(error);
}
