/** What the sidebar does with a board as a whole. */
import { type Schemas, api, reached } from '@/api/client';
import { client } from '@/api/queries';
import type { Board } from '@/api/types';
import { deleteBoard as erase } from '@/board/board-store';
import { askText, askYes } from '@/components/confirm-dialog';

const WHEN = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hour12: false });

type Listed = Schemas['BoardListed'];

/** The address of a new one, each time another. */
export const newChat = (): string => `/play?new=${Date.now().toString(36)}`;

export const boardName = (board: Pick<Listed, 'name' | 'created_at'>): string => board.name || `Board, ${WHEN.format(new Date(board.created_at))}`;

const changed = (id: string) =>
  Promise.all([client.invalidateQueries({ queryKey: ['boards'] }), client.invalidateQueries({ queryKey: ['board', id] })]);

/** A board is put whole, so it is read first; should somebody change it meanwhile, they are not overruled. */
export async function renameBoard(listed: Listed): Promise<void> {
  const name = await askText({ title: 'Rename board', act: 'Rename', value: listed.name, label: 'Name' });
  if (!name || name === listed.name) return;
  const read = await reached(`/api/boards/${encodeURIComponent(listed.id)}`, {});
  const { mode, columns, rows, cells, layout, testset } = (await read.json()) as Board;
  const etag = read.headers.get('etag');
  await api('put', '/api/boards/{board}', {
    path: { board: listed.id },
    // The schema of a body gives objects of anything no keys; what is sent is what was read.
    body: { name, mode, columns, rows, cells, layout, testset } as never,
    ...(etag ? { headers: { 'if-match': etag } } : {}),
  });
  await changed(listed.id);
}

/** Asks first; then whoever shows the board leaves it, before it goes. */
export async function deleteBoard(board: Listed, leave: () => void): Promise<void> {
  const sure = await askYes({
    title: 'Delete this board?',
    text: `“${boardName(board)}” goes; its threads stay.`,
    act: 'Delete',
    danger: true,
  });
  if (!sure) return;
  leave();
  await erase(board.id);
  client.removeQueries({ queryKey: ['board', board.id] });
  await client.invalidateQueries({ queryKey: ['boards'] });
}
