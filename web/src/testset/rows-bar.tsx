/** Above the rows: looking for some, adding one, and what can be done with those that are selected. */
import { Copy, Plus, Rows3, Search, Trash2, X } from 'lucide-react';
import type { ReactNode, RefObject } from 'react';
import { exact } from '@/lib/safe-text';
import { Button, IconButton } from '@/components/button';
import { TextField } from '@/components/form-fields';

interface Props {
  words: string;
  onWords: (words: string) => void;
  field: RefObject<HTMLInputElement | null>;
  tall: boolean;
  onTall: () => void;
  selected: number;
  isReadOnly: boolean;
  /** How many rows there are. */
  told: string | undefined;
  acts: Readonly<Record<'add' | 'duplicate' | 'remove' | 'none', () => void>>;
}

export function RowsBar({ words, onWords, field, tall, onTall, selected, isReadOnly, told, acts }: Props): ReactNode {
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-canvas px-4 py-2">
      <div className="relative min-w-0 grow basis-32 sm:max-w-80">
        <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
        <TextField ref={field} type="search" dir="auto" aria-label="Search the rows" placeholder="Search" maxLength={200} value={words} onChange={(event) => onWords(event.target.value)} onKeyDown={(event) => event.key === 'Escape' && onWords('')} className="!pl-8.5" />
      </div>
      {!isReadOnly && selected === 0 && <Button onClick={acts.add}><Plus aria-hidden className="size-4 text-faint" />Add row</Button>}
      {!isReadOnly && selected > 0 && (
        <div role="group" aria-label="Selected rows" className="flex flex-wrap items-center gap-1.5">
          <span role="status" className="px-1 text-[13px] text-muted">{selected.toLocaleString('en')} selected</span>
          <Button size="small" onClick={acts.duplicate}><Copy aria-hidden className="size-3.5 text-faint" />Duplicate</Button>
          <Button size="small" onClick={acts.add}><Plus aria-hidden className="size-3.5 text-faint" />Row below</Button>
          <Button size="small" look="danger" onClick={acts.remove}><Trash2 aria-hidden className="size-3.5" />Remove</Button>
          <IconButton size="small" label="Select none" onClick={acts.none}><X /></IconButton>
        </div>
      )}
      <span className="ml-auto text-xs text-faint tabular-nums max-sm:hidden">{told}</span>
      <IconButton label={tall ? 'Low rows' : 'Tall rows'} aria-pressed={tall} onClick={onTall}><Rows3 /></IconButton>
    </div>
  );
}

/** Texts that hold messages are never converted by themselves: it is offered. */
export const LikeChat = ({ name, onConvert }: { name: string; onConvert: () => void }): ReactNode => (
  <div role="status" className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-accent-soft px-4 py-1.5 text-[13px] text-accent">
    <span className="min-w-0 grow wrap-anywhere">The texts of <bdi className="font-medium">{exact(name).slice(0, 100)}</bdi> hold messages.</span>
    <Button size="small" onClick={onConvert}>Convert to messages</Button>
  </div>
);
