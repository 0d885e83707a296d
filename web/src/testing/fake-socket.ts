/** Test helper: a WebSocket that the test drives. */
export class FakeSocket extends EventTarget {
  readyState = 0;
  readonly sent: Record<string, unknown>[] = [];

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(): void {
    this.readyState = 3;
    this.dispatchEvent(new Event('close'));
  }
  open(): void {
    this.readyState = 1;
    this.dispatchEvent(new Event('open'));
  }
  sendFrames(...frames: object[]): void {
    for (const frame of frames) this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(frame) }));
  }
}

/** All sockets that were created, in order. */
export function fakeSockets(): { sockets: FakeSocket[]; createSocket: (url: string) => WebSocket } {
  const sockets: FakeSocket[] = [];
  const createSocket = () => {
    const socket = new FakeSocket();
    sockets.push(socket);
    return socket as unknown as WebSocket;
  };
  return { sockets, createSocket };
}
