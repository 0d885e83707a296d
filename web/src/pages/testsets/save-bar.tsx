/** What is not saved: how much it is, what it is about, and what to do when somebody else saved meanwhile. */
import { Undo2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { TestSet } from '@/api/types';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { askYes } from '@/components/confirm-dialog';
import { TextField } from '@/components/form-fields';
import { Problem } from '@/components/status';
import { tell, tellError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import { exact } from '@/lib/safe-text';
import { type Draft, drafts, countOf, type Edits, deltaOf, rebased } from './edits';
import type { Place } from './grid-rows';
import { staleTestset, testset } from './queries';

interface Props {
  id: string;
  draft: Draft;
  /** The newest revision there is. */
  head: number;
  /** Saved: show this revision, then forget the draft. */
  onSaved: (revision: number) => Promise<void>;
  /** Open a cell that was refused. */
  onShow: (place: Place) => void;
}

export function SaveBar({ id, draft, head, onSaved, onShow }: Props): ReactNode {
  const [message, setMessage] = useState('');
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const count = countOf(draft.edits);
  const refused = state.error instanceof ApiError ? refusedCell(state.error.path, draft.edits) : null;
  const isBehind = !state.busy && (head !== draft.base || isStale(state.error));
  const work = async (doing: () => Promise<void>): Promise<void> => {
    setState({ busy: true, error: null });
    try {
      await doing();
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const keep = () =>
    void work(async () => {
      const saved = await save(id, draft, message.trim());
      await onSaved(saved.head);
      setMessage('');
      tell(`Saved as revision ${saved.head}.`);
    });
  const discard = async () => {
    if (
      count < 2 ||
      (await askYes({
        title: `Discard ${pluralize(count, 'change')}?`,
        text: 'They cannot be brought back.',
        act: 'Discard',
        danger: true,
      }))
    )
      drafts.discard(id);
  };
  useCommand(
    count > 0 &&
      !isBehind && { id: 'testset-save', title: 'Save the changes', group: 'Test set', keys: 'mod+s', run: keep },
  );
  useCommand({ id: 'testset-undo', title: 'Undo the last change', group: 'Test set', run: () => drafts.undo(id) });
  return (
    <section aria-label="Unsaved changes" className="flex shrink-0 flex-col gap-2 border-t bg-surface px-4 py-2.5">
      {isBehind && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-warn">
          <span className="min-w-0 grow">
            Somebody saved revision {Math.max(head, draft.base + 1)} meanwhile; you began with {draft.base}.
          </span>
          <Button
            size="small"
            disabled={state.busy}
            onClick={() => void work(async () => tell(await putOnTop(id, draft)))}
          >
            Reload and apply my changes again
          </Button>
        </div>
      )}
      {state.error !== null && !isStale(state.error) && (
        <Problem error={state.error}>
          {refused && (
            <span className="text-xs wrap-anywhere">
              In <bdi className="font-medium">{exact(refused.column)}</bdi>
              {refused.inside && ` at ${exact(refused.inside)}`}
            </span>
          )}
          {refused?.place && (
            <Button size="small" onClick={() => refused.place && onShow(refused.place)}>
              Open the cell
            </Button>
          )}
        </Problem>
      )}
      <form
        className="flex flex-wrap items-center gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (count > 0 && !isBehind && !state.busy) keep();
        }}
      >
        <span role="status" className="shrink-0 font-medium tabular-nums">
          {count > 0 ? pluralize(count, 'change') : 'New column without values'}
        </span>
        <TextField
          dir="auto"
          aria-label="What the changes are about"
          placeholder="What is it about? (optional)"
          maxLength={1000}
          value={message}
          onChange={(event) => setMessage(event.target.value)}
          className="min-w-0 w-auto grow basis-40"
        />
        <IconButton label="Undo" keys="Ctrl+Z" onClick={() => drafts.undo(id)}>
          <Undo2 />
        </IconButton>
        <Button disabled={state.busy} onClick={() => void discard().catch(tellError)}>
          Discard
        </Button>
        <Button type="submit" look="main" disabled={count === 0 || isBehind || state.busy}>
          Save
        </Button>
      </form>
    </section>
  );
}

/** Which cell the server means when it refuses a delta: its error has a JSON pointer into what was sent. Pure. */
export interface Refused {
  column: string;
  /** What is meant inside of the cell, as a path. */
  inside: string;
  /** The cell, where it can be told. */
  place: Place | null;
}

export function refusedCell(path: string | undefined, { patches, added }: Edits): Refused | null {
  const [root, list, ...steps] = (path ?? '')
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (root !== 'delta') return null;
  if (list === 'add') {
    const [index = '', , column, ...inside] = steps;
    const key = added[Number(index)]?.key;
    return column === undefined
      ? null
      : { column, inside: inside.join('/'), place: key === undefined ? null : { key, column } };
  }
  if (list !== 'patch' && list !== 'columns') return null;
  const [column, ...inside] = steps;
  if (column === undefined) return null;
  // Of a patch only the column is told: where one row changes it, that is the one.
  const [only, ...others] = list === 'patch' ? [...patches].filter(([, { set }]) => Object.hasOwn(set, column)) : [];
  return { column, inside: inside.join('/'), place: only && others.length === 0 ? { key: only[0], column } : null };
}

/** A draft becomes a revision; or somebody was quicker, and it is put on top of theirs. */
export const isStale = (error: unknown): boolean => error instanceof ApiError && error.code === 'stale_base';

/** Commit it. The set as it is then. */
export async function save(id: string, draft: Draft, message: string): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', {
    path: { testset: id },
    body: { base: draft.base, message, delta: deltaOf(draft.edits) },
  });
  return fresh(id);
}

export async function restore(id: string, base: number, number: number): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', {
    path: { testset: id },
    body: { base, message: `Revision ${number} again`, restore: number },
  });
  return fresh(id);
}

async function fresh(id: string): Promise<TestSet> {
  void staleTestset(id);
  return queryClient.fetchQuery({ ...testset(id), staleTime: 0 });
}

/** The same changes on the newest revision. What that means, in words. */
export async function putOnTop(id: string, draft: Draft): Promise<string> {
  const now = await fresh(id);
  const gone = new Set<string>();
  let both = 0;
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof changes>> = await changes(id, draft.base, now.head, after);
    for (const row of page.rows) {
      if (row.change === 'removed') gone.add(row.id);
      const mine = draft.edits.patches.get(row.id);
      if (mine && row.change === 'changed')
        both += row.cells.filter(({ column }) => Object.hasOwn(mine.set, column) || mine.unset.includes(column)).length;
    }
    after = page.next;
  } while (after !== null);
  const names = new Set(now.columns.map(({ name }) => name));
  const { edits } = draft;
  drafts.rebase(id, now.head, {
    ...rebased(edits, gone),
    remove: edits.remove.filter((name) => names.has(name)),
    rename: new Map([...edits.rename].filter(([name, to]) => names.has(name) && !names.has(to))),
    columns: edits.columns.filter((name) => !names.has(name)),
  });
  const lost = [...edits.patches.keys(), ...edits.removed].filter((row) => gone.has(row)).length;
  return [
    `Your changes are on revision ${now.head} now.`,
    lost > 0 && `${pluralize(lost, 'row')} that you changed ${lost === 1 ? 'is' : 'are'} gone.`,
    both > 0 && `${pluralize(both, 'cell')} ${both === 1 ? 'was' : 'were'} changed there, too: yours will count.`,
    'Look at them, then save.',
  ]
    .filter(Boolean)
    .join(' ');
}

const changes = (id: string, from: number, to: number, after: string | null) =>
  api('get', '/api/testsets/{testset}/diff', {
    path: { testset: id },
    query: { from: String(from), to: String(to), limit: 200, after },
  });

/** An old revision becomes the newest again, after a question; nothing that was between is lost. */
export const useRestore =
  (set: TestSet) =>
  async (number: number): Promise<boolean> => {
    const text = drafts.of(set.id)
      ? 'Save or discard your changes first: they were made on the newest one.'
      : 'A new revision gets its rows. The others stay as they are.';
    if (drafts.of(set.id)) {
      tell(text, { bad: true });
      return false;
    }
    if (!(await askYes({ title: `Restore revision ${number}?`, text, act: 'Restore' }))) return false;
    const { head } = await restore(set.id, set.head, number);
    tell(
      head === set.head ? 'The newest revision has just these rows.' : `Revision ${head} has the rows of ${number}.`,
    );
    return true;
  };
