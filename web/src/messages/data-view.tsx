/** What a workflow says in data: a change of code as a diff, a notice, a stored file as a file, everything else as JSON. */
import { lazy, Suspense, type ReactNode } from 'react';
import { Spinner } from '@/ui/bits';
import { codeEdit } from './code-edit-shape';
import { FilesView } from './file-view';
import { Folded } from './folded';
import { JsonView } from './json-view';
import { notice } from './notice-shape';
import { NoticeView } from './notice-view';
import type { DataPart } from './part-groups';
import { exact } from '@/lib/safe-text';

const CodeEditView = lazy(() => import('./code-edit-view'));

export function DataView({ part }: { part: DataPart }): ReactNode {
  const name = part.type.slice('data-'.length);
  const edit = name === 'code-edit' ? codeEdit(part.data) : undefined;
  if (edit) return <Suspense fallback={<Spinner />}><CodeEditView edit={edit} /></Suspense>;
  const told = name === 'notice' ? notice(part.data) : undefined;
  if (told) return <NoticeView notice={told} />;
  const file = name === 'file' ? storedFilePart(part.data) : undefined;
  if (file) return <FilesView files={[file]} />;
  // Fields that programs get beside the words: whoever reads has been told.
  if (name === 'reply') return <Folded label="Fields of the reply" className="max-h-96 overflow-y-auto rounded-xl border bg-surface p-2"><JsonView value={part.data} /></Folded>;
  return (
    <section aria-label={`Data ${exact(name)}`} className="rounded-xl border bg-surface">
      <div dir="auto" className="truncate border-b px-3 py-1.5 text-xs text-muted">{exact(name).slice(0, 100)}</div>
      <div className="max-h-96 overflow-y-auto px-2 py-2"><JsonView value={part.data} /></div>
    </section>
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
