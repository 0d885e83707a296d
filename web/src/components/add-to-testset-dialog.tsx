/** Dialog that adds a conversation or a trace to a test set, as a row or as a script. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { ApiError, api, type Schemas } from '@/api/client';
import { completeStep } from '@/app/tour/progress';
import { pluralize } from '@/lib/format';
import { useDebounced } from '@/lib/hooks';
import { safeExact } from '@/lib/safe-text';
import { CellView } from '@/pages/testsets/cell-view';
import { testsetPagesQuery, invalidateTestset } from '@/pages/testsets/queries';
import type { Source } from './add-to-testset';
import { Button } from './button';
import { Dialog } from './dialog';
import { Select, TextField, LabeledField, SegmentedControl } from './form-fields';
import { ErrorMessage, Spinner } from './status';
import { showToast, showError } from './toast';

const NEW_TESTSET = '';
const FORM_LABELS: Readonly<Record<AddForm, string>> = { row: 'Row', script: 'Script' };
const HINTS = {
  conversation: {
    row: 'Input: the conversation up to the last question. Expected: the answer.',
    script: 'Each question becomes a turn that expects the same tool calls. Add the expected text yourself.',
  },
  trace: {
    row: 'Input: the input of the trace. Expected: its output.',
    script: 'Each question becomes a turn that expects the same tool calls. Add the expected text yourself.',
  },
};

export default function AddToTestsetDialog({ source, onClose }: { source: Source; onClose: () => void }): ReactNode {
  const [added, setAdded] = useState<AddResult | null>(null);
  return (
    <Dialog open onClose={onClose} title={added ? 'Added to test set' : 'Add to test set'}>
      {added ? (
        <AddedResult added={added} onClose={onClose} />
      ) : (
        <ChooseTestset source={source} onAdded={setAdded} onClose={onClose} />
      )}
    </Dialog>
  );
}

function ChooseTestset({
  source,
  onAdded,
  onClose,
}: {
  source: Source;
  onAdded: (added: AddResult) => void;
  onClose: () => void;
}): ReactNode {
  const [searchText, setSearchText] = useState('');
  const { data, error } = useInfiniteQuery(testsetPagesQuery(useDebounced(searchText.trim(), 250)));
  const sets = data?.pages.flatMap((page) => page.data) ?? [];
  const [pickedId, setPickedId] = useState<string | null>(null);
  const [name, setName] = useState('');
  const [form, setForm] = useState<AddForm>('row');
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const selectedId =
    pickedId !== null && (pickedId === NEW_TESTSET || sets.some(({ id }) => id === pickedId))
      ? pickedId
      : (sets[0]?.id ?? NEW_TESTSET);
  const submit = async (): Promise<void> => {
    setState({ busy: true, error: null });
    try {
      onAdded(await addRow(selectedId === NEW_TESTSET ? await createTestset(name.trim()) : selectedId, source, form));
    } catch (cause) {
      setState({ busy: false, error: cause });
    }
  };
  if (!data) return error ? <ErrorMessage error={error} /> : <Spinner />;
  const showSearch = searchText !== '' || sets.length > 20;
  return (
    <form
      className="flex flex-col gap-4 pt-1"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <div className="flex flex-col gap-2">
        <LabeledField label="Test set">
          <Select value={selectedId} onChange={(event) => setPickedId(event.target.value)}>
            {sets.map(({ id, name: testsetName, rows }) => (
              <option key={id} value={id}>
                {safeExact(testsetName).slice(0, 80)} ({pluralize(rows, 'row')})
              </option>
            ))}
            <option value={NEW_TESTSET}>New test set</option>
          </Select>
        </LabeledField>
        {showSearch && (
          <TextField
            type="search"
            aria-label="Find a test set"
            placeholder="Find by name"
            dir="auto"
            value={searchText}
            onChange={(event) => setSearchText(event.target.value)}
          />
        )}
        {selectedId === NEW_TESTSET && (
          <TextField
            aria-label="Name of the new test set"
            placeholder="Name"
            dir="auto"
            required
            maxLength={200}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </div>
      <div className="flex flex-col gap-1.5">
        <SegmentedControl label="Add as" options={FORM_LABELS} value={form} onChange={setForm} />
        <p className="text-[13px] text-muted">{HINTS[source.kind][form]}</p>
      </div>
      {state.error !== null && <ErrorMessage error={state.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" variant="main" disabled={state.busy || (selectedId === NEW_TESTSET && !name.trim())}>
          Add
        </Button>
      </div>
    </form>
  );
}

function AddedResult({ added, onClose }: { added: AddResult; onClose: () => void }): ReactNode {
  const [, navigate] = useLocation();
  const undo = () => {
    onClose();
    removeRow(added).then(() => showToast('Row removed.'), showError);
  };
  return (
    <div className="flex flex-col gap-3 pt-1">
      <dl className="overflow-hidden rounded-lg border">
        {Object.entries(added.data).map(([name, value]) => (
          <div key={name} className="grid gap-x-3 border-b px-3 py-2 last:border-0 sm:grid-cols-[7rem_minmax(0,1fr)]">
            <dt className="truncate text-[13px] font-medium">
              <bdi>{safeExact(name)}</bdi>
            </dt>
            <dd className="min-w-0 text-[13px]">
              <CellView value={value} kind="mixed" isTall />
            </dd>
          </div>
        ))}
      </dl>
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={undo}>Undo</Button>
        <Button onClick={onClose}>Close</Button>
        <Button
          variant="main"
          onClick={() => {
            onClose();
            navigate(`/testsets/${added.testset}`);
          }}
        >
          Open test set
        </Button>
      </div>
    </div>
  );
}

export type AddResult = Schemas['CaseView'];
export type AddForm = 'row' | 'script';

const MAX_ATTEMPTS = 3;

export async function createTestset(name: string): Promise<string> {
  const { id } = await api('post', '/api/testsets', { body: { name } });
  return id;
}

/** Add a row to the test set. Retries on conflict: adding a row is compatible with any other change. */
export async function addRow(testset: string, source: Source, form: AddForm): Promise<AddResult> {
  for (let attempt = 1; ; attempt++) {
    const { head: base } = await api('get', '/api/testsets/{testset}', { path: { testset } });
    try {
      const added = await api('post', '/api/testsets/{testset}/rows/from', {
        path: { testset },
        body: { base, source, as: form, message: `Added from a ${source.kind}` },
      });
      void invalidateTestset(testset);
      completeStep('case');
      return added;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'stale_base' || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

export async function removeRow({ testset, revision, row }: AddResult): Promise<void> {
  await api('post', '/api/testsets/{testset}/revisions', {
    path: { testset },
    body: { base: revision, message: 'Removed the added row', delta: { remove: [row] } },
  });
  void invalidateTestset(testset);
}
