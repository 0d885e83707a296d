/** A part of a record that is too long to be sent at once, put together from its pieces. */
import { api, type Schemas } from '@/api/client';
import type { Part } from './queries';

type Piece = Schemas['Piece'];

/** The value, once all of it is there; `told` hears how much is. */
export async function whole(read: (offset: number) => Promise<Piece>, told: (share: number) => void = () => {}): Promise<unknown> {
  const texts: string[] = [];
  for (let offset: number | null = 0; offset !== null; ) {
    const piece: Piece = await read(offset);
    texts.push(piece.text);
    told(piece.total ? Math.min(1, (piece.offset + piece.text.length) / piece.total) : 1);
    if (piece.next !== null && piece.next <= piece.offset) throw new Error('The server sends the same piece again.');
    offset = piece.next;
  }
  return JSON.parse(texts.join('')) as unknown;
}

export const pieceOf = (trace: string, span: string, part: Part, signal?: AbortSignal) => async (offset: number): Promise<Piece> =>
  // With a part asked for, the answer is a piece of it.
  (await api('get', '/api/spans/{trace}/{span}', { path: { trace, span }, query: { part, offset }, ...(signal ? { signal } : {}) })) as unknown as Piece;
