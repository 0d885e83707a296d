/** What a workflow says in data: a change of code as a diff, a notice, a stored file as a file, everything else as JSON. */
import { ChevronRight } from 'lucide-react';
import { lazy, Suspense, useId, useState, type ReactNode } from 'react';
import { classes } from '@/lib/classes';
import { Spinner } from '@/ui/bits';
import { codeEdit } from './code-edit-shape';
import { FilesView } from './file-view';
import { JsonView } from './json-view';
import { notice } from './notice-shape';
import { NoticeView } from './notice-view';
import type { DataPart } from './part-groups';
import { exact } from './safe';

const CodeEditView = lazy(() => import('./code-edit-view'));

export function DataView({ part }: { part: DataPart }): ReactNode {
  const name = part.type.slice('data-'.length);
  const edit = name === 'code-edit' ? codeEdit(part.data) : undefined;
  if (edit) return <Suspense fallback={<Spinner />}><CodeEditView edit={edit} /></Suspense>;
  const told = name === 'notice' ? notice(part.data) : undefined;
  if (told) return <NoticeView notice={told} />;
  const file = name === 'file' ? storedFilePart(part.data) : undefined;
  if (file) return <FilesView files={[file]} />;
  if (name === 'reply') return <FieldsView value={part.data} />;
  return (
    <section aria-label={`Data ${exact(name)}`} className="rounded-xl border bg-surface">
      <div dir="auto" className="truncate border-b px-3 py-1.5 text-xs text-muted">{exact(name).slice(0, 100)}</div>
      <div className="max-h-96 overflow-y-auto px-2 py-2"><JsonView value={part.data} /></div>
    </section>
  );
}

/** Fields that programs get beside the words (data part `reply`): folded, for whoever reads has been told. */
function FieldsView({ value }: { value: unknown }): ReactNode {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <div className="text-muted">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
        className="flex items-center gap-1 rounded-md py-0.5 pr-2 text-[13px] hover:text-ink"
      >
        <ChevronRight aria-hidden className={classes('size-3.5 transition-transform', open && 'rotate-90')} />
        Fields of the reply
      </button>
      <div id={id} className={classes('mt-1 max-h-96 overflow-y-auto rounded-xl border bg-surface p-2', !open && 'hidden')}>
        {open && <JsonView value={value} />}
      </div>
    </div>
  );
}

/** A file that only its id names. */
function storedFilePart(data: unknown): { url: string; mediaType: string; filename?: string } | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { file_id: id, media_type: mediaType, filename } = data as Record<string, unknown>;
  if (typeof id !== 'string') return undefined;
  return {
    url: `/api/files/${id}`,
    mediaType: typeof mediaType === 'string' ? mediaType : 'application/octet-stream',
    ...(typeof filename === 'string' ? { filename } : {}),
  };
}
