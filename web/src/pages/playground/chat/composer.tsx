/** Composer for all cells, a thread or one cell. */
import { useQuery } from '@tanstack/react-query';
import { ArrowUp, FileText, Paperclip, Plus, Square, X } from 'lucide-react';
import { useRef, useState, type ClipboardEvent, type DragEvent, type ReactNode } from 'react';
import { fetchOk, type StoredFile, type Board } from '@/api/client';
import { bootstrapQuery } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import type { ChatPart } from '@/components/messages/message';
import { Spinner } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatSize } from '@/lib/format';
import { isSendKey, usePreferences } from '@/lib/preferences';
import { serverPath } from '@/lib/server-path';
import type { CellName } from './cell-chat';

interface Props {
  target: Target;
  targets: { value: Target; label: string }[];
  onTarget: (target: Target) => void;
  onSend: (parts: ChatPart[], role: Role) => void;
  onStop: () => void;
  busy: boolean;
}

const SELECT_CLASS =
  'h-7 max-w-44 cursor-pointer truncate rounded-md bg-transparent px-1 text-[13px] text-muted ' +
  'hover:bg-sunken hover:text-ink';

const PLACEHOLDERS: Record<Role, string> = {
  user: 'Message',
  system: 'Add a system message',
  assistant: 'Add an assistant message',
};

export function Composer({ target, targets, onTarget, onSend, onStop, busy }: Props): ReactNode {
  const [text, setText] = useState('');
  const [role, setRole] = useState<Role>('user');
  const field = useRef<HTMLTextAreaElement>(null);
  const { files, uploads, attach, remove, clear } = useAttachments();
  const { send: sendKey } = usePreferences();
  const canSend = (text.trim() !== '' || files.length > 0) && uploads === 0;

  const send = () => {
    if (!canSend) return;
    onSend([...files.map(filePart), ...(text.trim() ? [{ type: 'text' as const, text }] : [])], role);
    setText('');
    clear();
    setRole('user');
    field.current?.focus();
  };
  useCommand({ id: 'compose', title: 'Write a message', group: 'Chat', keys: '/', run: () => field.current?.focus() });

  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    attach(event.clipboardData.files);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    attach(event.dataTransfer.files);
  };
  return (
    <form
      className={cn(
        'mx-auto w-full max-w-3xl rounded-2xl border bg-surface',
        'shadow-sm transition-colors focus-within:border-strong-line',
      )}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDrop={onDrop}
      onDragOver={(event) => event.preventDefault()}
    >
      {(files.length > 0 || uploads > 0) && <Attachments files={files} uploads={uploads} onRemove={remove} />}
      <textarea
        ref={field}
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the page is made for writing messages
        autoFocus
        aria-label="Message"
        dir="auto"
        rows={1}
        value={text}
        placeholder={PLACEHOLDERS[role]}
        onChange={(event) => setText(event.target.value)}
        onPaste={onPaste}
        onKeyDown={(event) => {
          if (!isSendKey(event.nativeEvent, sendKey)) return;
          event.preventDefault();
          send();
        }}
        className={cn(
          'field-sizing-content block max-h-[40dvh] min-h-11 w-full resize-none',
          'bg-transparent px-4 pt-3 pb-1 text-[15px] !outline-none',
        )}
      />
      <div className="flex items-center gap-1 px-2 pb-2">
        <AttachButton onFiles={attach} />
        <select
          aria-label="Role"
          className={SELECT_CLASS}
          value={role}
          onChange={(event) => setRole(event.target.value as Role)}
        >
          <option value="user">User</option>
          <option value="assistant">Assistant</option>
          <option value="system">System</option>
        </select>
        {targets.length > 1 && (
          <select
            aria-label="Send to"
            className={SELECT_CLASS}
            value={target}
            onChange={(event) => onTarget(event.target.value as Target)}
          >
            {targets.map((option) => (
              <option key={option.value} value={option.value}>
                {option.label}
              </option>
            ))}
          </select>
        )}
        <span className="grow" />
        {busy && (
          <Button size="small" onClick={onStop}>
            <Square className="size-3 fill-current" /> Stop all
          </Button>
        )}
        <IconButton
          label={role === 'user' ? 'Send' : 'Add'}
          keys={sendKey === 'enter' ? 'Enter' : 'Ctrl+Enter'}
          variant="main"
          type="submit"
          disabled={!canSend}
          className="rounded-full"
        >
          {role === 'user' ? <ArrowUp /> : <Plus />}
        </IconButton>
      </div>
    </form>
  );
}

interface AttachmentsProps {
  files: readonly StoredFile[];
  /** Number of files that are being uploaded. */
  uploads: number;
  onRemove: (id: string) => void;
}

function Attachments({ files, uploads, onRemove }: AttachmentsProps): ReactNode {
  return (
    <ul className="flex flex-wrap gap-2 px-3 pt-3" aria-label="Attached files">
      {files.map((file) => (
        <Attachment key={file.id} file={file} onRemove={() => onRemove(file.id)} />
      ))}
      {uploads > 0 && (
        <li className="flex items-center gap-2 text-xs text-muted">
          <Spinner label="Uploading" /> Uploading…
        </li>
      )}
    </ul>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: FileList) => void }): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label="Attach files" size="small" onClick={() => input.current?.click()}>
        <Paperclip />
      </IconButton>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to attach"
        onChange={(event) => {
          if (event.target.files) onFiles(event.target.files);
          event.target.value = '';
        }}
      />
    </>
  );
}

function Attachment({ file, onRemove }: { file: StoredFile; onRemove: () => void }): ReactNode {
  const isImage = /^image\/(png|jpeg|gif|webp|avif)$/.test(file.media_type);
  return (
    <li className={cn('flex max-w-56 items-center gap-2 rounded-lg border bg-sunken pr-1', isImage ? 'pl-1' : 'pl-2')}>
      {isImage ? (
        <img alt="" src={serverPath(`/api/files/${file.id}`)} className="size-8 rounded object-cover" />
      ) : (
        <FileText className="size-4 shrink-0 text-muted" />
      )}
      <span className="truncate text-xs" title={file.filename} dir="auto">
        {file.filename}
      </span>
      <IconButton label={`Remove ${file.filename}`} size="small" onClick={onRemove}>
        <X />
      </IconButton>
    </li>
  );
}

/** Files of the current draft. */
function useAttachments() {
  const [files, setFiles] = useState<StoredFile[]>([]);
  const [uploads, setUploads] = useState(0);
  const maxFileBytes = useQuery(bootstrapQuery()).data?.limits.file ?? Number.POSITIVE_INFINITY;
  const attach = (list: FileList) => {
    for (const file of list) {
      if (file.size > maxFileBytes) {
        showToast(`${file.name} exceeds the server’s file size limit of ${formatSize(maxFileBytes)}.`, {
          bad: true,
        });
        continue;
      }
      setUploads((count) => count + 1);
      uploadFile(file)
        .then((stored) => setFiles((before) => [...before, stored]))
        .catch(showError)
        .finally(() => setUploads((count) => count - 1));
    }
  };
  const remove = (id: string) => setFiles((before) => before.filter((file) => file.id !== id));
  return { files, uploads, attach, remove, clear: () => setFiles([]) };
}

export type Target = 'all' | 'row' | 'cell';
export type Role = 'user' | 'assistant' | 'system';

/** Cells that receive the message. */
export function targetCells(board: Board, target: Target, active: CellName): CellName[] {
  const cells = board.rows.flatMap((row) => board.columns.map((column) => ({ row: row.id, column: column.id })));
  if (target === 'all') return cells;
  if (target === 'row') return cells.filter((cell) => cell.row === active.row);
  return cells.filter((cell) => cell.row === active.row && cell.column === active.column);
}

/** Previous or next cell, wrapping around. */
export function neighbourCell(board: Board, active: CellName, step: 1 | -1): CellName {
  const cells = targetCells(board, 'all', active);
  const position = cells.findIndex((cell) => cell.row === active.row && cell.column === active.column);
  const start = position < 0 && step < 0 ? 0 : position; // If the active cell is gone: the first, or the last.
  return cells[(start + step + cells.length) % cells.length] ?? active;
}

/** Store a file on the server; messages reference it by id. */
export async function uploadFile(file: File): Promise<StoredFile> {
  const response = await fetchOk('/api/files', {
    method: 'POST',
    headers: {
      'content-type': file.type || 'application/octet-stream',
      'x-palaver-filename': encodeURIComponent(file.name || 'file'),
    },
    body: file,
  });
  return (await response.json()) as StoredFile;
}

export const filePart = (file: StoredFile): ChatPart => ({
  type: 'file',
  mediaType: file.media_type,
  filename: file.filename,
  url: serverPath(`/api/files/${file.id}`),
});
