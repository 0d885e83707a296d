/** A column of texts that hold messages, as messages: read from all rows, as an edit that somebody may save. */
import { reached } from '@/api/client';
import { type Data, type Edits, type ShownColumn, cellOf, withCells } from './edits';
import { inexact } from './json-input';

/** More rows than that are changed with a file. */
const MOST = 20_000;

/** What converts the column in any edits, and how many texts it leaves as they are. */
export async function converting(id: string, base: number, rows: number, column: ShownColumn): Promise<{ convert: (edits: Edits) => Edits; left: number }> {
  if (rows > MOST) throw new Error(`The page converts up to ${MOST.toLocaleString('en')} rows. Export the set, convert the file, and import it.`);
  const answer = await reached(`/api/testsets/${encodeURIComponent(id)}/revisions/${base}/export?format=jsonl&ids=true`, {});
  const lines = (await answer.text()).split('\n').filter(Boolean);
  const name = column.was ?? column.name;
  let left = 0;
  const changes = lines.flatMap((line) => {
    const { __id__: row, ...before } = JSON.parse(line) as Data & { __id__: string };
    const text = cellOf(before, name);
    const value = typeof text === 'string' ? messagesIn(text) : undefined;
    if (value === undefined && typeof text === 'string') left += 1;
    return value === undefined ? [] : [{ id: row, name: column.name, value, before }];
  });
  return { convert: (edits) => withCells(edits, changes.filter((change) => !edits.removed.has(change.id))), left };
}

/** A text with a number that would change is left. */
function messagesIn(text: string): unknown {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && inexact(text) === null ? value : undefined;
  } catch {
    return undefined;
  }
}
