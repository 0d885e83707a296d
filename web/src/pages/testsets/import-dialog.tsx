/** Import of a file with a preview before and a report after the upload. */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState, type ReactNode, type Ref, type DragEvent } from 'react';
import type { Schemas } from '@/api/client';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { Select, TextField, LabeledField, SegmentedControl } from '@/components/form-fields';
import { jsonSummary } from '@/components/json-view';
import { ErrorMessage, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatSize, pluralize } from '@/lib/format';
import { safeExact, safeProse } from '@/lib/safe-text';
import { messagesIn } from './cell-messages';
import {
  ACCEPTED,
  type CellTypes,
  type Format,
  type FilePreview,
  MAX_PREVIEW_ROWS,
  fileFormat,
  readFileHead,
  previewFile,
  testsetName,
} from './file-preview';
import { type ImportResult, type ImportTarget, importFile, invalidateTestset } from './queries';

interface Props {
  file: File;
  /** Target test set; undefined creates a new one. */
  testset?: { id: string; name: string; columns: readonly Schemas['ColumnView'][] };
  onClose: () => void;
  onDone: (imported: ImportResult) => void;
}

type Mode = 'append' | 'replace' | 'upsert';
const MODES: Readonly<Record<Mode, string>> = { append: 'Keep', replace: 'Replace all', upsert: 'Update by key' };
const TYPES: Readonly<Record<CellTypes, string>> = { auto: 'Detect', text: 'Text only' };

export function ImportDialog({ file, testset, onClose, onDone }: Props): ReactNode {
  const [types, setTypes] = useState<CellTypes>('auto');
  const [name, setName] = useState(() => testsetName(file.name));
  const [mode, setMode] = useState<Mode>('append');
  const [key, setKey] = useState(testset?.columns[0]?.name ?? '');
  const preview = useFilePreview(file, types);
  const upload = useUpload();
  const finish = (): void => {
    onClose();
    if (upload.imported) onDone(upload.imported);
  };
  const submit = (): void => {
    const target: ImportTarget = testset
      ? { testset: testset.id, mode, ...(mode === 'upsert' ? { key } : {}) }
      : { name: name.trim() };
    if (preview.format) upload.send(file, preview.format, target, types);
  };
  return (
    <Dialog
      open
      wide
      onClose={upload.imported ? finish : onClose}
      title={testset ? `Import into ${safeExact(testset.name).slice(0, 80)}` : 'Import test set'}
      description={`${file.name.slice(0, 120)}, ${formatSize(file.size)}`}
    >
      {upload.imported ? (
        <ImportReport imported={upload.imported} onDone={finish} />
      ) : (
        <form
          className="flex flex-col gap-4 pt-1"
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          <div className="flex flex-wrap items-end gap-4">
            {!testset && (
              <div className="grow">
                <LabeledField label="Name">
                  <TextField
                    dir="auto"
                    required
                    maxLength={200}
                    value={name}
                    onChange={(event) => setName(event.target.value)}
                  />
                </LabeledField>
              </div>
            )}
            {testset && (
              <div className="flex flex-col gap-1">
                <span className="font-medium">Existing rows</span>
                <SegmentedControl label="Existing rows" options={MODES} value={mode} onChange={setMode} />
              </div>
            )}
            {testset && mode === 'upsert' && (
              <LabeledField label="Key column">
                <Select value={key} onChange={(event) => setKey(event.target.value)}>
                  {testset.columns.map(({ name: column }) => (
                    <option key={column}>{column}</option>
                  ))}
                </Select>
              </LabeledField>
            )}
            {preview.format === 'csv' && (
              <div className="flex flex-col gap-1">
                <span className="font-medium">Cell types</span>
                <SegmentedControl label="Cell types" options={TYPES} value={types} onChange={setTypes} />
              </div>
            )}
          </div>
          <PreviewTable preview={preview} file={file} />
          {upload.error && <ErrorMessage error={upload.error} />}
          {upload.fraction !== null && <Progress fraction={upload.fraction} />}
          <div className="flex justify-end gap-2">
            <Button onClick={upload.fraction === null ? onClose : upload.stop}>
              {upload.fraction === null ? 'Cancel' : 'Stop'}
            </Button>
            <Button
              type="submit"
              variant="main"
              disabled={!preview.format || upload.fraction !== null || (!testset && !name.trim())}
            >
              Import
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

// Preview

interface PreviewState {
  format: Format | null;
  preview: FilePreview | null;
  error: Error | null;
  waiting: boolean;
}

function useFilePreview(file: File, types: CellTypes): PreviewState {
  const { data, error, isLoading } = useQuery({
    queryKey: ['file-head', file.name, file.size, file.lastModified],
    queryFn: () => readFileHead(file),
    staleTime: 'static',
    gcTime: 0,
    retry: false,
  });
  return useMemo(() => {
    if (error || isLoading || data === undefined) return { format: null, preview: null, error, waiting: isLoading };
    const format = fileFormat(file.name);
    try {
      return {
        format,
        preview:
          data && format !== 'parquet' ? previewFile(format, data.text, { types, isComplete: data.isComplete }) : null,
        error: null,
        waiting: false,
      };
    } catch (cause) {
      // The server reports the error for the whole file; the user may upload anyway.
      return { format, preview: null, error: cause as Error, waiting: false };
    }
  }, [file, data, error, isLoading, types]);
}

function PreviewTable({ preview, file }: { preview: PreviewState; file: File }): ReactNode {
  if (preview.waiting) return <Spinner label="Reading the file" />;
  if (preview.error) return <ErrorMessage error={preview.error} />;
  if (!preview.preview)
    return <p className="text-muted">No preview for this file ({formatSize(file.size)}). You can still import it.</p>;
  const { columns, rows, isAll } = preview.preview;
  return (
    <div className="flex flex-col gap-1.5">
      <p role="status" className="text-muted">
        {pluralize(columns.length, 'column')};{' '}
        {isAll ? pluralize(rows.length, 'row') : `first ${pluralize(rows.length, 'row')}`}:
      </p>
      <div className="max-h-80 overflow-auto rounded-lg border">
        <table className="w-max min-w-full border-collapse text-[13px]">
          <thead className="sticky top-0 bg-sunken text-left">
            <tr>
              {columns.slice(0, 50).map((name) => (
                <th key={name} scope="col" className="max-w-72 truncate px-2.5 py-1.5 font-medium">
                  <bdi>{safeExact(name)}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MAX_PREVIEW_ROWS).map((row, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- rows of a file have no ids
              <tr key={index} className="border-t align-top">
                {columns.slice(0, 50).map((name) => (
                  <td key={name} className="max-w-72 px-2.5 py-1.5">
                    <PreviewValue value={Object.hasOwn(row, name) ? row[name] : undefined} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {columns.length > 50 && (
        <p className="text-xs text-faint">And {pluralize(columns.length - 50, 'more column')}.</p>
      )}
    </div>
  );
}

/** A value, styled by its type to tell text from numbers. */
function PreviewValue({ value }: { value: unknown }): ReactNode {
  if (value === undefined) return <span className="text-faint">–</span>;
  if (typeof value === 'string')
    return (
      <span dir="auto" className="line-clamp-3 wrap-anywhere whitespace-pre-wrap">
        {value === '' ? <span className="text-faint">Empty text</span> : safeProse(value.slice(0, 500))}
      </span>
    );
  const messages = messagesIn(value);
  if (messages)
    return (
      <span dir="auto" className="line-clamp-3 wrap-anywhere">
        <span className="text-xs text-muted">{pluralize(messages.length, 'message')}: </span>
        {safeProse((messages.at(-1)?.text ?? '').slice(0, 300))}
      </span>
    );
  return (
    <code className="line-clamp-3 font-mono text-[12px] text-(--code-number) wrap-anywhere">
      {safeExact(jsonSummary(value, 200))}
    </code>
  );
}

// Upload

interface UploadState {
  /** Uploaded fraction from 0 to 1; null while idle. */
  fraction: number | null;
  error: Error | null;
  imported: ImportResult | null;
  send: (file: File, format: Format, target: ImportTarget, types: CellTypes) => void;
  stop: () => void;
}

function useUpload(): UploadState {
  const [state, setState] = useState<Pick<UploadState, 'fraction' | 'error' | 'imported'>>({
    fraction: null,
    error: null,
    imported: null,
  });
  const controller = useRef<AbortController | null>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const send = (file: File, format: Format, target: ImportTarget, types: CellTypes): void => {
    const uploadController = new AbortController();
    controller.current = uploadController;
    setState({ fraction: 0, error: null, imported: null });
    importFile(file, format, target, {
      types,
      signal: uploadController.signal,
      onProgress: (fraction) => setState((previous) => ({ ...previous, fraction })),
    }).then(
      (imported) => {
        void invalidateTestset(imported.testset.id);
        setState({ fraction: null, error: null, imported });
      },
      (error: Error) =>
        !(error.name === 'AbortError' && controller.current !== uploadController) &&
        setState({ fraction: null, error: error.name === 'AbortError' ? null : error, imported: null }),
    );
  };
  return { ...state, send, stop: () => controller.current?.abort() };
}

function Progress({ fraction }: { fraction: number }): ReactNode {
  const percent = Math.round(fraction * 100);
  return (
    <div className="flex items-center gap-3">
      <progress
        aria-label="Upload progress"
        max={100}
        value={percent}
        className={cn(
          'h-1.5 grow overflow-hidden rounded-full bg-sunken [&::-moz-progress-bar]:bg-accent',
          '[&::-webkit-progress-bar]:bg-sunken [&::-webkit-progress-value]:bg-accent',
        )}
      />
      <span className="w-28 text-right text-xs text-muted tabular-nums">
        {percent < 100 ? `${percent}% uploaded` : 'Processing…'}
      </span>
    </div>
  );
}

function ImportReport({
  imported: { report, revision },
  onDone,
}: {
  imported: ImportResult;
  onDone: () => void;
}): ReactNode {
  const counts: [number, string][] = [
    [report.added, 'added'],
    [report.changed, 'changed'],
    [report.unchanged, 'unchanged'],
    [report.removed, 'removed'],
  ];
  const countsText = counts
    .filter(([number]) => number > 0)
    .map(([number, label]) => `${number.toLocaleString('en')} ${label}`)
    .join(', ');
  return (
    <div className="flex flex-col gap-3 pt-1">
      <p role="status">
        {revision.unchanged
          ? 'No changes: the test set already has these rows.'
          : `Imported ${pluralize(report.rows, 'row')} (revision ${revision.revision}): ${countsText}.`}
      </p>
      {(report.wrapped ?? 0) > 0 && (
        <p className="text-warn">
          {pluralize(report.wrapped ?? 0, 'value')}{' '}
          {report.wrapped === 1 ? 'was not an object and became a row' : 'were not objects and became rows'} with one
          column.
        </p>
      )}
      <div className="flex justify-end">
        <Button variant="main" onClick={onDone}>
          Open test set
        </Button>
      </div>
    </div>
  );
}

/** Shown while a file is dragged over the page. */
export const DropOverlay = (): ReactNode => (
  <div
    className={cn(
      'pointer-events-none absolute inset-3 z-30 flex items-center justify-center rounded-2xl',
      'border-2 border-dashed border-accent bg-accent-soft/80 text-base font-medium text-accent',
    )}
  >
    Drop the file to preview it
  </div>
);

export function useFileDrop(onFile: (file: File) => void): {
  isOver: boolean;
  handlers: Record<'onDragEnter' | 'onDragOver' | 'onDragLeave' | 'onDrop', (event: DragEvent<HTMLElement>) => void>;
} {
  const [isOver, setIsOver] = useState(false);
  const hasFile = ({ dataTransfer }: DragEvent) => dataTransfer.types.includes('Files');
  const handleDrag = (event: DragEvent<HTMLElement>) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    setIsOver(true);
  };
  return {
    isOver,
    handlers: {
      onDragEnter: handleDrag,
      onDragOver: handleDrag,
      onDragLeave: ({ currentTarget, relatedTarget }) =>
        !currentTarget.contains(relatedTarget as Node | null) && setIsOver(false),
      onDrop: (event) => {
        if (!hasFile(event)) return;
        event.preventDefault();
        setIsOver(false);
        const [file] = event.dataTransfer.files;
        if (file) onFile(file);
      },
    },
  };
}

/** The hidden file input behind the import buttons. */
export const FileInput = ({
  ref,
  onPick,
}: {
  ref: Ref<HTMLInputElement>;
  onPick: (file: File | null) => void;
}): ReactNode => (
  <input
    ref={ref}
    type="file"
    hidden
    aria-label="File to import"
    accept={ACCEPTED}
    onChange={(event) => {
      onPick(event.target.files?.[0] ?? null);
      event.target.value = '';
    }}
  />
);
