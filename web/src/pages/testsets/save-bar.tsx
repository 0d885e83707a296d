/** Bar for unsaved changes: save, discard, resolve conflicts. Also restores old revisions. */
import { Undo2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { ApiError, api, type TestSet } from '@/api/client';
import { queryClient } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { TextField } from '@/components/form-fields';
import { ErrorMessage } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import { safeExact } from '@/lib/safe-text';
import { type TestsetDraft, drafts, countEdits, type Edits, editsDelta, rebaseEdits, type CellPosition } from './edits';
import { invalidateTestset, testsetDetailQuery } from './queries';

interface Props {
  id: string;
  draft: TestsetDraft;
  /** Newest revision. */
  head: number;
  /** Called after saving: shows the revision, then discards the draft. */
  onSaved: (revision: number) => Promise<void>;
  /** Open a rejected cell. */
  onShow: (position: CellPosition) => void;
}

export function SaveBar({ id, draft, head, onSaved, onShow }: Props): ReactNode {
  const [message, setMessage] = useState('');
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const count = countEdits(draft.edits);
  const refused = state.error instanceof ApiError ? findRefusedCell(state.error.path, draft.edits) : null;
  const isBehind = !state.busy && (head !== draft.base || isStale(state.error));
  const runExclusive = async (action: () => Promise<void>): Promise<void> => {
    setState({ busy: true, error: null });
    try {
      await action();
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const saveChanges = () =>
    void runExclusive(async () => {
      const saved = await saveDraft(id, draft, message.trim());
      await onSaved(saved.head);
      setMessage('');
      showToast(`Saved as revision ${saved.head}.`);
    });
  const discard = async () => {
    if (
      count < 2 ||
      (await askConfirmation({
        title: `Discard ${pluralize(count, 'change')}?`,
        text: 'This cannot be undone.',
        act: 'Discard',
        danger: true,
      }))
    )
      drafts.discard(id);
  };
  useCommand(
    count > 0 &&
      !isBehind && {
        id: 'testset-save',
        title: 'Save changes',
        group: 'Test set',
        keys: 'mod+s',
        run: saveChanges,
      },
  );
  useCommand({ id: 'testset-undo', title: 'Undo last change', group: 'Test set', run: () => drafts.undo(id) });
  return (
    <section aria-label="Unsaved changes" className="flex shrink-0 flex-col gap-2 border-t bg-surface px-4 py-2.5">
      {isBehind && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-warn">
          <span className="min-w-0 grow">
            Revision {Math.max(head, draft.base + 1)} was saved in the meantime. Your changes are based on revision{' '}
            {draft.base}.
          </span>
          <Button
            size="small"
            disabled={state.busy}
            onClick={() => void runExclusive(async () => showToast(await rebaseDraft(id, draft)))}
          >
            Reload and reapply my changes
          </Button>
        </div>
      )}
      {state.error !== null && !isStale(state.error) && (
        <ErrorMessage error={state.error}>
          {refused && (
            <span className="text-xs wrap-anywhere">
              In <bdi className="font-medium">{safeExact(refused.column)}</bdi>
              {refused.inside && ` at ${safeExact(refused.inside)}`}
            </span>
          )}
          {refused?.position && (
            <Button size="small" onClick={() => refused.position && onShow(refused.position)}>
              Open cell
            </Button>
          )}
        </ErrorMessage>
      )}
      <form
        className="flex flex-wrap items-center gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (count > 0 && !isBehind && !state.busy) saveChanges();
        }}
      >
        <span role="status" className="shrink-0 font-medium tabular-nums">
          {count > 0 ? pluralize(count, 'change') : 'New column without values'}
        </span>
        <TextField
          dir="auto"
          aria-label="Change description"
          placeholder="Describe this change (optional)"
          maxLength={1000}
          value={message}
          onChange={(event) => setMessage(event.target.value)}
          className="min-w-0 w-auto grow basis-40"
        />
        <IconButton label="Undo" keys="Ctrl+Z" onClick={() => drafts.undo(id)}>
          <Undo2 />
        </IconButton>
        <Button disabled={state.busy} onClick={() => void discard().catch(showError)}>
          Discard
        </Button>
        <Button type="submit" variant="main" disabled={count === 0 || isBehind || state.busy}>
          Save
        </Button>
      </form>
    </section>
  );
}

export interface RefusedCell {
  column: string;
  /** Path within the cell. */
  inside: string;
  /** The cell, if known. */
  position: CellPosition | null;
}

export function findRefusedCell(path: string | undefined, { patches, added }: Edits): RefusedCell | null {
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
      : { column, inside: inside.join('/'), position: key === undefined ? null : { key, column } };
  }
  if (list !== 'patch' && list !== 'columns') return null;
  const [column, ...inside] = steps;
  if (column === undefined) return null;
  // A patch error only names the column: if one row changes it, that is the cell.
  const [only, ...others] = list === 'patch' ? [...patches].filter(([, { set }]) => Object.hasOwn(set, column)) : [];
  return { column, inside: inside.join('/'), position: only && others.length === 0 ? { key: only[0], column } : null };
}

export const isStale = (error: unknown): boolean => error instanceof ApiError && error.code === 'stale_base';

/** Commit the draft; returns the test set. */
export async function saveDraft(id: string, draft: TestsetDraft, message: string): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', {
    path: { testset: id },
    body: { base: draft.base, message, delta: editsDelta(draft.edits) },
  });
  return refreshTestset(id);
}

export async function restoreRevision(id: string, base: number, number: number): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', {
    path: { testset: id },
    body: { base, message: `Restored revision ${number}`, restore: number },
  });
  return refreshTestset(id);
}

async function refreshTestset(id: string): Promise<TestSet> {
  void invalidateTestset(id);
  return queryClient.fetchQuery({ ...testsetDetailQuery(id), staleTime: 0 });
}

/** Rebase the draft on the newest revision; returns a summary for the user. */
export async function rebaseDraft(id: string, draft: TestsetDraft): Promise<string> {
  const latest = await refreshTestset(id);
  const removedRows = new Set<string>();
  let conflicts = 0;
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof fetchChanges>> = await fetchChanges(id, draft.base, latest.head, after);
    for (const row of page.rows) {
      if (row.change === 'removed') removedRows.add(row.id);
      const ownPatch = draft.edits.patches.get(row.id);
      if (ownPatch && row.change === 'changed')
        conflicts += row.cells.filter(
          ({ column }) => Object.hasOwn(ownPatch.set, column) || ownPatch.unset.includes(column),
        ).length;
    }
    after = page.next;
  } while (after !== null);
  const columnNames = new Set(latest.columns.map(({ name }) => name));
  const { edits } = draft;
  drafts.rebase(id, latest.head, {
    ...rebaseEdits(edits, removedRows),
    remove: edits.remove.filter((name) => columnNames.has(name)),
    rename: new Map([...edits.rename].filter(([name, to]) => columnNames.has(name) && !columnNames.has(to))),
    columns: edits.columns.filter((name) => !columnNames.has(name)),
  });
  const lostCount = [...edits.patches.keys(), ...edits.removed].filter((row) => removedRows.has(row)).length;
  return [
    `Your changes are now based on revision ${latest.head}.`,
    lostCount > 0 && `${pluralize(lostCount, 'row')} you changed ${lostCount === 1 ? 'was' : 'were'} deleted.`,
    conflicts > 0 &&
      `${pluralize(conflicts, 'cell')} ${conflicts === 1 ? 'was' : 'were'} also changed in that revision;` +
        ' your values will be saved.',
    'Check your changes, then save.',
  ]
    .filter(Boolean)
    .join(' ');
}

const fetchChanges = (id: string, from: number, to: number, after: string | null) =>
  api('get', '/api/testsets/{testset}/diff', {
    path: { testset: id },
    query: { from: String(from), to: String(to), limit: 200, after },
  });

/** Restore an old revision as the newest, after confirmation. */
export const useRestore =
  (set: TestSet) =>
  async (number: number): Promise<boolean> => {
    const text = drafts.of(set.id)
      ? 'Save or discard your changes first.'
      : 'Its rows are saved as a new revision. Other revisions are kept.';
    if (drafts.of(set.id)) {
      showToast(text, { bad: true });
      return false;
    }
    if (!(await askConfirmation({ title: `Restore revision ${number}?`, text, act: 'Restore' }))) return false;
    const { head } = await restoreRevision(set.id, set.head, number);
    showToast(
      head === set.head
        ? 'The latest revision already has these rows.'
        : `Restored revision ${number} as revision ${head}.`,
    );
    return true;
  };
