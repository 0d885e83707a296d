/** What is not saved: how much it is, what it is about, and what to do when somebody else saved meanwhile. */
import { Undo2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { ApiError } from '@/api/client';
import { useCommand } from '@/app/commands';
import { exact } from '@/lib/safe-text';
import { askYes } from '@/components/confirm-dialog';
import { Problem } from '@/components/status';
import { Button, IconButton } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { tell, tellError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import { type Draft, drafts } from './drafts';
import { countOf } from './edits';
import type { Place } from './grid-shape';
import { refusedCell } from './refused';
import { isStale, putOnTop, save } from './saving';

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
    if (count < 2 || (await askYes({ title: `Discard ${pluralize(count, 'change')}?`, text: 'They cannot be brought back.', act: 'Discard', danger: true }))) drafts.discard(id);
  };
  useCommand(count > 0 && !isBehind && { id: 'testset-save', title: 'Save the changes', group: 'Test set', keys: 'mod+s', run: keep });
  useCommand({ id: 'testset-undo', title: 'Undo the last change', group: 'Test set', run: () => drafts.undo(id) });
  return (
    <section aria-label="Unsaved changes" className="flex shrink-0 flex-col gap-2 border-t bg-surface px-4 py-2.5">
      {isBehind && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-warn">
          <span className="min-w-0 grow">Somebody saved revision {Math.max(head, draft.base + 1)} meanwhile; you began with {draft.base}.</span>
          <Button size="small" disabled={state.busy} onClick={() => void work(async () => tell(await putOnTop(id, draft)))}>Reload and apply my changes again</Button>
        </div>
      )}
      {state.error !== null && !isStale(state.error) && (
        <Problem error={state.error}>
          {refused && <span className="text-xs wrap-anywhere">In <bdi className="font-medium">{exact(refused.column)}</bdi>{refused.inside && ` at ${exact(refused.inside)}`}</span>}
          {refused?.place && <Button size="small" onClick={() => refused.place && onShow(refused.place)}>Open the cell</Button>}
        </Problem>
      )}
      <form className="flex flex-wrap items-center gap-2" onSubmit={(event) => { event.preventDefault(); if (count > 0 && !isBehind && !state.busy) keep(); }}>
        <span role="status" className="shrink-0 font-medium tabular-nums">{count > 0 ? pluralize(count, 'change') : 'New column without values'}</span>
        <TextField dir="auto" aria-label="What the changes are about" placeholder="What is it about? (optional)" maxLength={1000} value={message} onChange={(event) => setMessage(event.target.value)} className="min-w-0 !w-auto grow basis-40" />
        <IconButton label="Undo" keys="Ctrl+Z" onClick={() => drafts.undo(id)}><Undo2 /></IconButton>
        <Button disabled={state.busy} onClick={() => void discard().catch(tellError)}>Discard</Button>
        <Button type="submit" look="main" disabled={count === 0 || isBehind || state.busy}>Save</Button>
      </form>
    </section>
  );
}
