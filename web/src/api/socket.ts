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
  resolve: (response: Response) => void;
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
    super('Lost the connection to the server.');
    this.name = 'ConnectionLost';
  }
}

/** No socket is available; nothing was sent. */
export class SocketUnavailable extends Error {
  constructor() {
    super('Not connected to the server.');
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
  #createSocket: (url: string) => WebSocket;
  #connection: Promise<WebSocket> | null = null;
  #pending = new Map<number, PendingRequest>();
  #nextId = 1;
  #listeners = new Set<(notice: Notice) => void>();
  #connectionListeners = new Set<(connected: boolean) => void>();
  #reconnectDelay = MIN_RECONNECT_DELAY_MS;

  constructor(url: string, createSocket: (url: string) => WebSocket = (socketUrl) => new WebSocket(socketUrl)) {
    this.#url = url;
    this.#createSocket = createSocket;
  }

  /** Subscribe to notices and to the connection state. The socket stays open while there are listeners. */
  listen(listener: (notice: Notice) => void, connectionListener: (connected: boolean) => void = () => {}): () => void {
    // Wrapped, so that one function can subscribe twice and unsubscribe separately.
    const onNotice = (notice: Notice) => listener(notice);
    const onConnection = (connected: boolean) => connectionListener(connected);
    this.#listeners.add(onNotice);
    this.#connectionListeners.add(onConnection);
    void this.#connect().catch(() => {});
    return () => {
      this.#listeners.delete(onNotice);
      this.#connectionListeners.delete(onConnection);
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
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { socket, resolve, fail: reject });
      signal?.addEventListener('abort', () => this.#abort(id), { once: true });
      socket.send(JSON.stringify({ id, ...request }));
    });
  }

  #connect(): Promise<WebSocket> {
    this.#connection ??= this.#attempt().catch((error: unknown) => {
      this.#handleClose();
      throw error;
    });
    return this.#connection;
  }

  /** Open a socket and handle its messages and its end. */
  #attempt(): Promise<WebSocket> {
    return new Promise((resolve, reject) => {
      const socket = this.#createSocket(this.#url);
      let stableTimer: ReturnType<typeof setTimeout> | undefined;
      const connectTimer = setTimeout(() => {
        reject(new ConnectionLost());
        socket.close();
      }, CONNECT_TIMEOUT_MS);
      socket.addEventListener('open', () => {
        clearTimeout(connectTimer);
        // Don't reset at once: a server that accepts and closes would be retried four times a second.
        stableTimer = setTimeout(() => {
          this.#reconnectDelay = MIN_RECONNECT_DELAY_MS;
        }, MAX_RECONNECT_DELAY_MS);
        resolve(socket);
        for (const notify of this.#connectionListeners) notify(true);
      });
      socket.addEventListener('message', (event: MessageEvent<string>) =>
        this.#handleFrame(JSON.parse(event.data) as Frame),
      );
      socket.addEventListener('close', () => {
        clearTimeout(connectTimer);
        // Closed before it opened is a failed attempt; afterwards a lost connection.
        if (stableTimer === undefined) reject(new ConnectionLost());
        else this.#handleClose();
        clearTimeout(stableTimer);
      });
    });
  }

  #handleClose(): void {
    this.#connection = null;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const request of pending) failRequest(request, new ConnectionLost());
    for (const notify of this.#connectionListeners) notify(false);
    if (this.#listeners.size === 0) return;
    setTimeout(() => {
      if (this.#listeners.size > 0) void this.#connect().catch(() => {});
    }, this.#reconnectDelay);
    this.#reconnectDelay = Math.min(this.#reconnectDelay * 2, MAX_RECONNECT_DELAY_MS);
  }

  #handleFrame(frame: Frame): void {
    if ('changed' in frame) {
      for (const listener of this.#listeners) listener(frame);
      return;
    }
    const pending = this.#pending.get(frame.id);
    if (!pending) return;
    if ('status' in frame) this.#startResponse(frame.id, pending, frame.status, frame.headers);
    else if ('data' in frame) pending.body?.enqueue(encoder.encode(frame.data));
    else {
      this.#pending.delete(frame.id);
      if ('error' in frame)
        failRequest(
          pending,
          frame.error.code === STREAM_INTERRUPTED ? new ConnectionLost() : new Error(frame.error.message),
        );
      else if (pending.body) pending.body.close();
      else pending.fail(new ConnectionLost());
    }
  }

  #startResponse(id: number, pending: PendingRequest, status: number, headers: Record<string, string>): void {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        pending.body = controller;
      },
      cancel: () => this.#abort(id),
    });
    pending.resolve(new Response(STATUSES_WITHOUT_BODY.has(status) ? null : body, { status, headers }));
  }

  #abort(id: number): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#pending.delete(id);
    if (pending.socket.readyState === READY_STATE_OPEN) pending.socket.send(JSON.stringify({ id, abort: true }));
    failRequest(pending, new DOMException('The request was cancelled.', 'AbortError'));
  }
}

/** The error code of a response that the server could not complete; its run may continue. */
const STREAM_INTERRUPTED = 'interrupted';

/** Reject the response, or error its body once that has started. */
function failRequest(pending: PendingRequest, error: Error): void {
  if (pending.body) pending.body.error(error);
  else pending.fail(error);
}
