/** Rows of a test set, edited as a draft and saved as the next revision. Old revisions are read-only. */
import { useInfiniteQuery, useQuery, type UseInfiniteQueryResult } from '@tanstack/react-query';
import { Plus, SearchX, Table2, Copy, Rows3, Search, Trash2, X } from 'lucide-react';
import { useEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from 'react';
import type { TestSet } from '@/api/client';
import { queryClient } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { useUnsavedChanges } from '@/app/unsaved-changes';
import { Button, IconButton } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { EmptyState, LoadError, Loading, ErrorMessage } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import { useDebounced } from '@/lib/hooks';
import { createStoredChoice } from '@/lib/preferences';
import { safeExact } from '@/lib/safe-text';
import { CellSheet } from './cell-editor';
import { ColumnDialog, type ColumnAction, type ColumnActions, convertToMessages } from './columns';
import {
  drafts,
  useDraft,
  NO_EDITS,
  applyPatch,
  countEdits,
  shownColumns,
  withCell,
  withRow,
  withoutColumn,
  withoutRows,
  type TestsetDraft,
  type Edits,
  type ShownColumn,
  gridEntries,
  type GridEntry,
  type CellPosition,
} from './edits';
import { Grid, type GridProps } from './grid';
import { inexactNumberError } from './json-input';
import { revisionQuery, testsetRowsQuery, fullRowQuery, type TestsetRow } from './queries';
import { SaveBar } from './save-bar';

const useRowHeight = createStoredChoice('palaver.testset.rows', ['tall', 'low']);
let lastNewKey = 0;
const newKey = (): string => `new ${++lastNewKey}`;

/** `oldRevision`: the revision to show, read-only; undefined for the newest. */
export function RowsView({ set, oldRevision }: { set: TestSet; oldRevision?: number | undefined }): ReactNode {
  const { id, head } = set;
  const draft = useDraft(id);
  const isReadOnly = oldRevision !== undefined || set.archived;
  const [searchText, setSearchText] = useState('');
  const search = useDebounced(searchText.trim(), 250);
  const [number, showRevision] = useShownRevision(id, oldRevision ?? draft?.base ?? head, search);
  const edits = isReadOnly ? NO_EDITS : (draft?.edits ?? NO_EDITS);
  const { base, error, pages, rows, entries, columns } = useRevisionRows(id, number, search, edits);
  const isTall = useRowHeight() === 'tall';
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const [openPosition, setOpenPosition] = useState<CellPosition | null>(null);
  const [focusTarget, setFocusTarget] = useState<CellPosition | null>(null);
  const [columnAction, setColumnAction] = useState<ColumnAction | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const change = (next: Edits) => drafts.change(id, number, next);
  const selected = useMemo(() => entries.filter(({ key }) => keys.has(key)), [entries, keys]);
  useUnsavedDraft(set, draft);
  useCommand({
    id: 'testset-rows-search',
    title: 'Search rows',
    group: 'Test set',
    keys: '/',
    run: () => field.current?.focus(),
  });

  const { addRow, duplicate, remove, clear, actions } = useRowOperations(
    { set: id, number, base, rows, entries, columns, edits, selected },
    { onColumnAction: setColumnAction, onAdded: setFocusTarget, onDone: () => setKeys(new Set()) },
  );
  const openEntry = openPosition && entries.find(({ key }) => key === openPosition.key);
  const column = openPosition && columns.find(({ name }) => name === openPosition.column);
  const chatColumn = isReadOnly ? undefined : columns.find(({ looksLikeChat }) => looksLikeChat && !edits.patches.size);
  if (error) return <BoxedError error={error} />;
  return (
    <>
      <RowsBar
        searchText={searchText}
        onSearchText={setSearchText}
        field={field}
        isTall={isTall}
        onTall={() => useRowHeight.setState(isTall ? 'low' : 'tall')}
        selected={selected.length}
        isReadOnly={isReadOnly}
        countText={base && (search ? foundText(entries.length, pages.hasNextPage) : pluralize(base.rows, 'row'))}
        actions={{ add: addRow, duplicate, remove, none: () => setKeys(new Set()) }}
      />
      {chatColumn && <ConvertHint name={chatColumn.name} onConvert={() => actions.convert(chatColumn)} />}
      <RowsArea
        set={set}
        base={base}
        pages={pages}
        hasRows={rows.length > 0}
        search={search}
        editing={isReadOnly ? undefined : { onClear: clear, selection: { keys, set: setKeys }, actions }}
        onAddColumn={() => setColumnAction({ act: 'add' })}
        grid={{ columns, entries, edits, isTall, focusTarget, onOpen: setOpenPosition }}
      />
      {draft && !isReadOnly && (
        <SaveBar
          id={id}
          draft={draft}
          head={head}
          onShow={setOpenPosition}
          onSaved={async (saved) => {
            await showRevision(saved);
            drafts.discard(id);
            setKeys(new Set());
          }}
        />
      )}
      {openEntry && column && (
        <CellSheet
          key={`${openEntry.key} ${column.name}`}
          id={id}
          number={number}
          entry={openEntry}
          column={column}
          edits={edits}
          readOnly={isReadOnly}
          onClose={() => {
            setOpenPosition(null);
            setFocusTarget({ ...openPosition });
          }}
          onApply={(value, before) => change(withCell(edits, openEntry.key, column.name, value, before))}
        />
      )}
      {columnAction && (
        <ColumnDialog
          action={columnAction}
          columns={base?.kinds ?? []}
          edits={edits}
          onDone={change}
          onClose={() => setColumnAction(null)}
        />
      )}
    </>
  );
}

const BoxedError = ({ error }: { error: Error }): ReactNode => (
  <div className="p-4">
    <ErrorMessage error={error} />
  </div>
);

/** The rows and columns of a revision with the edits applied. */
function useRevisionRows(set: string, number: number, search: string, edits: Edits) {
  const { data: base, error } = useQuery(revisionQuery(set, number));
  const pages = useInfiniteQuery(testsetRowsQuery(set, number, search));
  const rows = useMemo(() => pages.data?.pages.flatMap(({ data }) => data) ?? [], [pages.data]);
  const entries = useMemo(() => gridEntries(rows, edits, search !== ''), [rows, edits, search]);
  const columns = useMemo(() => shownColumns(base?.kinds ?? [], edits), [base, edits]);
  return { base, error, pages, rows, entries, columns };
}

function useUnsavedDraft({ id, name }: TestSet, draft: TestsetDraft | undefined): void {
  const count = draft ? countEdits(draft.edits) : 0;
  const text = `${pluralize(count, 'change')} to ${name} ${count === 1 ? 'is' : 'are'}`;
  useUnsavedChanges(`/testsets/${id}`, count > 0 ? text : null);
}

const foundText = (count: number, hasMore: boolean): string =>
  `${count.toLocaleString('en')}${hasMore ? '+' : ''} found`;

interface RowsAreaProps {
  set: TestSet;
  base: { rows: number } | undefined;
  pages: UseInfiniteQueryResult;
  hasRows: boolean;
  search: string;
  /** Undefined where the revision can only be read. */
  editing: Pick<GridProps, 'onClear' | 'selection' | 'actions'> | undefined;
  onAddColumn: () => void;
  grid: Pick<GridProps, 'columns' | 'entries' | 'edits' | 'isTall' | 'focusTarget' | 'onOpen'>;
}

/** The grid, or what is shown in its place while there are no rows. */
function RowsArea({ set, base, pages, hasRows, search, editing, onAddColumn, grid }: RowsAreaProps): ReactNode {
  if (pages.error && !hasRows) return <LoadError error={pages.error} onRetry={pages.refetch} className="grow p-4" />;
  if (!base || (pages.isLoading && !hasRows)) return <Loading className="flex grow justify-center py-16" />;
  const isEmpty = grid.entries.length === 0 && !pages.hasNextPage && !pages.isFetching;
  if (isEmpty && (grid.columns.length === 0 || search))
    return (
      <div className="min-h-0 grow overflow-y-auto">
        {search ? (
          <EmptyState icon={<SearchX aria-hidden />} title="No matching rows">
            Search covers all cells.
          </EmptyState>
        ) : (
          <NoRows isReadOnly={!editing} onAdd={onAddColumn} />
        )}
      </div>
    );
  return (
    <Grid
      label={`Rows of ${set.name}`}
      {...grid}
      hasMore={pages.hasNextPage}
      isFetching={pages.isFetching}
      hasFailed={pages.isFetchNextPageError}
      isStale={pages.isPlaceholderData}
      onMore={() => void pages.fetchNextPage()}
      onClear={editing?.onClear}
      onUndo={editing && (() => drafts.undo(set.id))}
      selection={editing?.selection}
      actions={editing?.actions}
      tail={
        editing && (
          <IconButton label="Add column" onClick={onAddColumn}>
            <Plus />
          </IconButton>
        )
      }
    />
  );
}

interface RowsState {
  set: string;
  number: number;
  base: { rows: number } | undefined;
  rows: readonly TestsetRow[];
  entries: readonly GridEntry[];
  columns: readonly ShownColumn[];
  edits: Edits;
  selected: readonly GridEntry[];
}

interface RowEvents {
  /** Opens the dialog of a column. */
  onColumnAction: (action: ColumnAction) => void;
  /** Called with the first cell of a new row. */
  onAdded: (position: CellPosition) => void;
  /** Called after the selected rows were duplicated or removed. */
  onDone: () => void;
}

/** Operations on rows and columns; each is one undoable step. */
function useRowOperations(
  { set, number, base, rows, entries, columns, edits, selected }: RowsState,
  { onColumnAction, onAdded, onDone }: RowEvents,
) {
  const change = (next: Edits) => drafts.change(set, number, next);
  /** The current edits, after awaiting something. */
  const latest = (): Edits => drafts.of(set)?.edits ?? NO_EDITS;
  const addRow = () => {
    const key = newKey();
    const first = columns[0];
    if (!first) return onColumnAction({ act: 'add' });
    change(withRow(edits, key, Object.fromEntries(edits.fill), selected.at(-1)?.key));
    return onAdded({ key, column: first.name });
  };
  const duplicate = async () => {
    const copies = await Promise.all(
      selected.map(async (entry) => ({ entry, data: await fetchFullData(set, number, entry, edits) })),
    );
    const inexactRow = copies.find(({ data }) => inexactNumberError(JSON.stringify(data)) !== null);
    if (inexactRow) throw new Error(inexactNumberError(JSON.stringify(inexactRow.data)) ?? '');
    change(copies.reduceRight((result, { entry, data }) => withRow(result, newKey(), data, entry.key), latest()));
    onDone();
  };
  const remove = () => {
    change(
      withoutRows(
        edits,
        new Set(selected.map(({ key }) => key)),
        rows.map((row) => row.id),
      ),
    );
    onDone();
  };
  const actions: ColumnActions = {
    rename: ({ name }) => onColumnAction({ act: 'rename', column: name }),
    fill: ({ name }) => onColumnAction({ act: 'fill', column: name }),
    remove: ({ name }) => change(withoutColumn(edits, name)),
    convert: (column) =>
      void convertToMessages(set, number, base?.rows ?? 0, column).then(({ convert, unconverted }) => {
        change(convert(latest()));
        if (unconverted > 0) showToast(`Could not parse ${pluralize(unconverted, 'value')}: left as text.`);
      }, showError),
  };
  const clear = (position: CellPosition) => {
    const entry = entries.find(({ key }) => key === position.key);
    if (entry) change(withCell(edits, position.key, position.column, undefined, entry.row?.data ?? null));
  };
  return { addRow, duplicate: () => void duplicate().catch(showError), remove, clear, actions };
}

function NoRows({ isReadOnly, onAdd }: { isReadOnly: boolean; onAdd: () => void }): ReactNode {
  return (
    <EmptyState icon={<Table2 aria-hidden />} title="No rows yet">
      <p>{isReadOnly ? 'This revision is empty.' : 'Add a column such as messages or expected, or import a file.'}</p>
      {!isReadOnly && (
        <div className="pt-3">
          <Button variant="main" onClick={onAdd}>
            <Plus aria-hidden className="size-4" />
            Add column
          </Button>
        </div>
      )}
    </EmptyState>
  );
}

/** The full row, including cells that the page of rows has cut. */
async function fetchFullData(id: string, number: number, { key, row, added }: GridEntry, edits: Edits) {
  if (!row) return added?.data ?? {};
  const fullRow = row.cut ? await queryClient.fetchQuery(fullRowQuery(id, number, row.id)) : row;
  return applyPatch(key, fullRow.data, edits);
}

/**
 * The shown revision. Another one is loaded as far as this one before it is shown, so that the scroll position stays.
 */
function useShownRevision(id: string, requested: number, search: string): [number, (number: number) => Promise<void>] {
  const [number, setNumber] = useState(requested);
  const show = async (next: number): Promise<void> => {
    const loaded = queryClient.getQueryData(testsetRowsQuery(id, number, search).queryKey)?.pages.length ?? 1;
    const pages = Math.min(50, Math.max(1, loaded));
    await Promise.all([
      queryClient.fetchInfiniteQuery({ ...testsetRowsQuery(id, next, search), pages }),
      queryClient.fetchQuery(revisionQuery(id, next)),
    ]);
    setNumber(next);
  };
  const latest = useRef(show);
  useEffect(() => {
    latest.current = show;
  });
  useEffect(() => {
    if (requested !== number) latest.current(requested).catch(() => setNumber(requested));
  }, [requested, number]);
  return [number, show];
}

interface Props {
  searchText: string;
  onSearchText: (searchText: string) => void;
  field: RefObject<HTMLInputElement | null>;
  isTall: boolean;
  onTall: () => void;
  selected: number;
  isReadOnly: boolean;
  /** Number of rows, as text. */
  countText: string | undefined;
  actions: Readonly<Record<'add' | 'duplicate' | 'remove' | 'none', () => void>>;
}

export function RowsBar({
  searchText,
  onSearchText,
  field,
  isTall,
  onTall,
  selected,
  isReadOnly,
  countText,
  actions,
}: Props): ReactNode {
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-canvas px-4 py-2">
      <div className="relative min-w-0 grow basis-32 sm:max-w-80">
        <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
        <TextField
          ref={field}
          type="search"
          dir="auto"
          aria-label="Search rows"
          placeholder="Search"
          maxLength={200}
          value={searchText}
          onChange={(event) => onSearchText(event.target.value)}
          onKeyDown={(event) => event.key === 'Escape' && onSearchText('')}
          className="!pl-8.5"
        />
      </div>
      {!isReadOnly && selected === 0 && (
        <Button onClick={actions.add}>
          <Plus aria-hidden className="size-4 text-faint" />
          Add row
        </Button>
      )}
      {!isReadOnly && selected > 0 && (
        <div role="group" aria-label="Selected rows" className="flex flex-wrap items-center gap-1.5">
          <span role="status" className="px-1 text-[13px] text-muted">
            {selected.toLocaleString('en')} selected
          </span>
          <Button size="small" onClick={actions.duplicate}>
            <Copy aria-hidden className="size-3.5 text-faint" />
            Duplicate
          </Button>
          <Button size="small" onClick={actions.add}>
            <Plus aria-hidden className="size-3.5 text-faint" />
            Insert row below
          </Button>
          <Button size="small" variant="danger" onClick={actions.remove}>
            <Trash2 aria-hidden className="size-3.5" />
            Remove
          </Button>
          <IconButton size="small" label="Clear selection" onClick={actions.none}>
            <X />
          </IconButton>
        </div>
      )}
      <span className="ml-auto text-xs text-faint tabular-nums max-sm:hidden">{countText}</span>
      <IconButton label={isTall ? 'Compact rows' : 'Tall rows'} aria-pressed={isTall} onClick={onTall}>
        <Rows3 />
      </IconButton>
    </div>
  );
}

/** Offer to convert a text column whose texts are messages. */
export const ConvertHint = ({ name, onConvert }: { name: string; onConvert: () => void }): ReactNode => (
  <div
    role="status"
    className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-accent-soft px-4 py-1.5 text-[13px] text-accent"
  >
    <span className="min-w-0 grow wrap-anywhere">
      The column <bdi className="font-medium">{safeExact(name).slice(0, 100)}</bdi> contains messages stored as text.
    </span>
    <Button size="small" onClick={onConvert}>
      Convert to messages
    </Button>
  </div>
);
