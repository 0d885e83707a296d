/** /testsets/{id}: rows, history (?view=history), diff (?from=3&to=4) or an old revision (?revision=3). */
import { useQuery } from '@tanstack/react-query';
import {
  SearchX,
  ArrowLeft,
  Archive,
  ArchiveRestore,
  ChevronDown,
  Download,
  Ellipsis,
  FileUp,
  FlaskConical,
  Pencil,
  Text,
} from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';
import { Link, useSearchParams, useLocation } from 'wouter';
import { ApiError, api, type TestSet } from '@/api/client';
import { Button, IconButton } from '@/components/button';
import { askText, askConfirmation } from '@/components/confirm-dialog';
import { SegmentedControl } from '@/components/form-fields';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import { Badge, EmptyState, LoadError, Loading } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { pluralize } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { safeExact, safeProse } from '@/lib/safe-text';
import type { Format } from './file-preview';
import { RevisionDiff, History } from './history';
import { FileInput, DropOverlay, useFileDrop, ImportDialog } from './import-dialog';
import { testsetDetailQuery, exportPath, invalidateTestset } from './queries';
import { RowsView } from './rows-view';
import { useRestore } from './save-bar';

export default function TestSetPage({ id }: { id: string }): ReactNode {
  const { data, error, refetch } = useQuery(testsetDetailQuery(id));
  useTitle(data ? data.name.slice(0, 80) : 'Test set');
  if (data) return <TestsetView set={data} />;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <EmptyState title="Test set not found" icon={<SearchX aria-hidden />}>
        <p>It was deleted, or belongs to another project.</p>
        <Link href="/testsets" className="mt-3 inline-block text-accent hover:underline">
          All test sets
        </Link>
      </EmptyState>
    );
  }
  if (error) return <LoadError error={error} onRetry={refetch} className="mx-auto max-w-xl p-8" />;
  return <Loading className="grid h-full place-items-center" />;
}

function TestsetView({ set }: { set: TestSet }): ReactNode {
  const [search, setSearch] = useSearchParams();
  const revisionParam = (name: string): number | undefined =>
    /^[1-9]\d{0,8}$/.test(search.get(name) ?? '') ? Number(search.get(name)) : undefined;
  const [from, to, old] = [revisionParam('from'), revisionParam('to'), revisionParam('revision')];
  const view: TestsetTab = search.get('view') === 'history' || from !== undefined ? 'history' : 'rows';
  const [file, setFile] = useState<File | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const drop = useFileDrop((droppedFile) => !set.archived && setFile(droppedFile));
  const isOld = old !== undefined && old < set.head;
  return (
    <section aria-label="Test set" className="relative flex h-full min-h-0 flex-col" {...drop.handlers}>
      <TestsetHeader
        set={set}
        view={view}
        onView={(next) => setSearch(next === 'history' ? { view: 'history' } : {})}
        onImport={() => picker.current?.click()}
        revision={isOld && view === 'rows' ? old : set.head}
      />
      {view === 'history' && from !== undefined && (
        <RevisionDiff key={`${from} ${to}`} set={set} from={from} to={to ?? set.head} />
      )}
      {view === 'history' && from === undefined && <History set={set} />}
      {view === 'rows' && isOld && <OldRevisionBar set={set} number={old} />}
      {view === 'rows' && <RowsView key={isOld ? old : 'head'} set={set} oldRevision={isOld ? old : undefined} />}
      <FileInput ref={picker} onPick={setFile} />
      {drop.isOver && !set.archived && <DropOverlay />}
      {file && <ImportDialog file={file} testset={set} onClose={() => setFile(null)} onDone={() => setSearch({})} />}
    </section>
  );
}

export type TestsetTab = 'rows' | 'history';
const LABELS: Readonly<Record<Format, string>> = { csv: 'CSV', jsonl: 'JSON Lines', json: 'JSON', parquet: 'Parquet' };

interface Props {
  set: TestSet;
  view: TestsetTab;
  onView: (view: TestsetTab) => void;
  onImport: () => void;
  /** Revision that is displayed and exported. */
  revision: number;
}

export function TestsetHeader({ set, view, onView, onImport, revision }: Props): ReactNode {
  return (
    <header className="shrink-0 border-b bg-surface px-4 py-2.5">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1.5">
        <Link
          href="/testsets"
          aria-label="All test sets"
          className={cn(
            '-ml-1.5 flex size-7 shrink-0 items-center justify-center',
            'rounded-lg text-muted hover:bg-sunken hover:text-ink',
          )}
        >
          <ArrowLeft aria-hidden className="size-4" />
        </Link>
        <h1 className="min-w-0 text-base font-semibold wrap-anywhere">
          <bdi className="line-clamp-2">{safeExact(set.name)}</bdi>
        </h1>
        {set.archived && <Badge>Archived</Badge>}
        <span className="text-xs text-faint tabular-nums">
          {pluralize(set.columns.length, 'column')} · revision {set.head}
        </span>
        <span className="grow" />
        <SegmentedControl label="View" options={{ rows: 'Rows', history: 'History' }} value={view} onChange={onView} />
        {!set.archived && (
          <Button size="small" className="h-8" onClick={onImport}>
            <FileUp aria-hidden className="size-3.5 text-faint" />
            <span className="max-sm:sr-only">Import</span>
          </Button>
        )}
        <ExportMenu set={set} number={revision} />
        {!set.archived && <EvaluateButton set={set} />}
        <MoreMenu set={set} />
      </div>
      {set.description && (
        <p dir="auto" className="mt-1 line-clamp-2 max-w-3xl text-[13px] text-muted wrap-anywhere">
          {safeProse(set.description)}
        </p>
      )}
    </header>
  );
}

function EvaluateButton({ set }: { set: TestSet }): ReactNode {
  const [, navigate] = useLocation();
  return (
    <Button
      size="small"
      variant="main"
      className="h-8"
      disabled={set.rows === 0}
      onClick={() => navigate(`/evaluations?new=1&testset=${set.id}`)}
    >
      <FlaskConical aria-hidden className="size-3.5" />
      <span className="max-sm:sr-only">Evaluate</span>
    </Button>
  );
}

function ExportMenu({ set, number }: { set: TestSet; number: number }): ReactNode {
  return (
    <Menu
      trigger={
        <Button size="small" className="h-8">
          <Download aria-hidden className="size-3.5 text-faint" />
          <span className="max-sm:sr-only">Export</span>
          <ChevronDown aria-hidden className="size-3 text-faint" />
        </Button>
      }
    >
      {(Object.keys(LABELS) as Format[]).map((format) => (
        <MenuItem key={format} onSelect={() => download(exportPath(set.id, number, format))}>
          {LABELS[format]}
        </MenuItem>
      ))}
    </Menu>
  );
}

/** Download a file, which the server sends as an attachment. */
function download(path: string): void {
  const link = document.createElement('a');
  link.href = path;
  link.download = '';
  link.click();
}

function MoreMenu({ set }: { set: TestSet }): ReactNode {
  const [, navigate] = useLocation();
  const change = async (body: { name?: string; description?: string; archived?: boolean }): Promise<void> => {
    await api('patch', '/api/testsets/{testset}', { path: { testset: set.id }, body });
    await invalidateTestset(set.id);
  };
  const rename = async () => {
    const name = await askText({ title: 'Rename test set', label: 'Name', value: set.name, act: 'Rename' });
    if (name && name !== set.name) await change({ name });
  };
  const describe = async () => {
    const description = await askText({
      title: 'Edit description',
      label: 'Description',
      value: set.description,
      act: 'Save',
    });
    if (description !== null && description !== set.description) await change({ description });
  };
  const archive = async () => {
    if (
      !(await askConfirmation({
        title: `Archive ${set.name.slice(0, 80)}?`,
        text: 'It will be hidden from the list. Its revisions are kept, and you can unarchive it.',
        act: 'Archive',
        danger: true,
      }))
    )
      return;
    await change({ archived: true });
    showToast('Test set archived.', {
      action: { label: 'Undo', run: () => void change({ archived: false }).catch(showError) },
    });
    navigate('/testsets');
  };
  return (
    <Menu
      trigger={
        <IconButton label="More">
          <Ellipsis />
        </IconButton>
      }
    >
      <MenuItem icon={<Pencil />} onSelect={() => void rename().catch(showError)}>
        Rename
      </MenuItem>
      <MenuItem icon={<Text />} onSelect={() => void describe().catch(showError)}>
        Edit description
      </MenuItem>
      <MenuLine />
      {set.archived ? (
        <MenuItem icon={<ArchiveRestore />} onSelect={() => void change({ archived: false }).catch(showError)}>
          Unarchive
        </MenuItem>
      ) : (
        <MenuItem danger icon={<Archive />} onSelect={() => void archive().catch(showError)}>
          Archive
        </MenuItem>
      )}
    </Menu>
  );
}

/** Notice above an old revision, with links back and to restore it. */
export function OldRevisionBar({ set, number }: { set: TestSet; number: number }): ReactNode {
  const [, navigate] = useLocation();
  const restore = useRestore(set);
  return (
    <div
      role="status"
      className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-warn-soft px-4 py-1.5 text-[13px] text-warn"
    >
      <span className="min-w-0 grow">
        You are viewing revision {number}. The latest is {set.head}.
      </span>
      {!set.archived && (
        <Button
          size="small"
          onClick={() =>
            void restore(number)
              .then((isRestored) => isRestored && navigate(`/testsets/${set.id}`))
              .catch(showError)
          }
        >
          Restore
        </Button>
      )}
      <Link href={`/testsets/${set.id}`} className="rounded px-1 font-medium underline underline-offset-2">
        View latest
      </Link>
    </div>
  );
}
