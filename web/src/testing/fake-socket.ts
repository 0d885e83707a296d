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
  opens(): void {
    this.readyState = 1;
    this.dispatchEvent(new Event('open'));
  }
  tells(...frames: object[]): void {
    for (const frame of frames) this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(frame) }));
  }
}

/** All sockets that were created, in order. */
export function fakeSockets(): { made: FakeSocket[]; make: (url: string) => WebSocket } {
  const made: FakeSocket[] = [];
  const make = () => {
    const socket = new FakeSocket();
    made.push(socket);
    return socket as unknown as WebSocket;
  };
  return { made, make };
}
