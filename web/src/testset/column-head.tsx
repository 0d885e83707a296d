/** The head of a column: its name and kind, and what can be done with it. */
import { ChevronDown, Eraser, MessagesSquare, PaintBucket, Pencil, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { exact } from '@/lib/safe-text';
import { Badge } from '@/components/status';
import { IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import type { ShownColumn } from './edits';

export const KIND_WORDS: Readonly<Record<ShownColumn['kind'], string>> = {
  chat: 'Every value is a conversation', message: 'Every value is one message', script: 'Every value is a conversation script', text: 'Every value is text',
  number: 'Every value is a number', boolean: 'Every value is true or false', json: 'Every value is an object or a list', mixed: 'Values of several kinds, or none',
};

export interface ColumnActs {
  rename: (column: ShownColumn) => void;
  fill: (column: ShownColumn) => void;
  remove: (column: ShownColumn) => void;
  convert: (column: ShownColumn) => void;
}

export function ColumnHead({ column, acts }: { column: ShownColumn; acts: ColumnActs | undefined }): ReactNode {
  const name = exact(column.name);
  return (
    <div className="flex w-full min-w-0 items-center gap-1.5">
      <bdi className="min-w-0 truncate font-medium" title={column.was === null ? name : `${name}, was ${exact(column.was)}`}>{name}</bdi>
      <Badge title={KIND_WORDS[column.kind]} tone={column.isNew ? 'good' : column.kind === 'chat' || column.kind === 'script' || column.kind === 'message' ? 'accent' : 'plain'}>{column.isNew ? 'new' : column.kind}</Badge>
      <span className="grow" />
      {acts && (
        <Menu trigger={<IconButton size="small" label={`Column ${name}`}><ChevronDown /></IconButton>}>
          {column.looksLikeChat && <MenuItem icon={<MessagesSquare />} onSelect={() => acts.convert(column)}>Convert to messages</MenuItem>}
          <MenuItem icon={<Pencil />} onSelect={() => acts.rename(column)}>Rename</MenuItem>
          <MenuItem icon={<PaintBucket />} onSelect={() => acts.fill(column)}>Fill empty cells</MenuItem>
          <MenuLine />
          <MenuItem danger icon={column.isNew ? <Eraser /> : <Trash2 />} onSelect={() => acts.remove(column)}>Remove column</MenuItem>
        </Menu>
      )}
    </div>
  );
}
