/** Above the spans: to find some, to open and close, and to look closer. */
import { ChevronDown, ChevronsDownUp, ChevronsUpDown, ChevronUp, CircleAlert, Maximize2, ZoomIn, ZoomOut } from 'lucide-react';
import type { KeyboardEvent, ReactNode } from 'react';
import { IconButton } from '@/components/button';
import { TextField } from '@/components/form-fields';

interface Props {
  words: string;
  onWords: (words: string) => void;
  /** How many are found; null: nothing is looked for. */
  found: number | null;
  onNext: (back: boolean) => void;
  errors: number;
  onNextError: () => void;
  onOpenAll: () => void;
  onCloseAll: () => void;
  /** Null where no time is shown. */
  zoom: { by: (factor: number) => void; all: () => void; isAll: boolean } | null;
}

export function SpansBar({ words, onWords, found, onNext, errors, onNextError, onOpenAll, onCloseAll, zoom }: Props): ReactNode {
  const pressed = (event: KeyboardEvent) => {
    if (event.key === 'Enter') onNext(event.shiftKey);
    else if (event.key === 'Escape' && words) onWords('');
    else return;
    event.preventDefault();
  };
  return (
    <div className="flex h-10 shrink-0 items-center gap-0.5 border-b px-2">
      <div className="relative mr-1 min-w-0 max-w-64 grow">
        <TextField
          type="search"
          aria-label="Find spans"
          placeholder="Find spans"
          dir="auto"
          value={words}
          onChange={(event) => onWords(event.target.value)}
          onKeyDown={pressed}
          className="!h-7 !pr-14 text-[13px] [&::-webkit-search-cancel-button]:hidden"
        />
        {found !== null && <span role="status" className="absolute top-1.5 right-2 text-xs text-faint tabular-nums">{found ? `${found} found` : 'None'}</span>}
      </div>
      {found ? (
        <>
          <IconButton size="small" label="Previous found" onClick={() => onNext(true)}><ChevronUp /></IconButton>
          <IconButton size="small" label="Next found" onClick={() => onNext(false)}><ChevronDown /></IconButton>
        </>
      ) : null}
      {errors > 0 && <IconButton size="small" label="Next error" onClick={onNextError} className="!text-bad"><CircleAlert /></IconButton>}
      <IconButton size="small" label="Open all" onClick={onOpenAll}><ChevronsUpDown /></IconButton>
      <IconButton size="small" label="Close all" onClick={onCloseAll}><ChevronsDownUp /></IconButton>
      <span className="grow" />
      {zoom && (
        <>
          <IconButton size="small" label="Zoom out" disabled={zoom.isAll} onClick={() => zoom.by(2)}><ZoomOut /></IconButton>
          <IconButton size="small" label="Zoom in" onClick={() => zoom.by(0.5)}><ZoomIn /></IconButton>
          <IconButton size="small" label="Whole trace" disabled={zoom.isAll} onClick={zoom.all}><Maximize2 /></IconButton>
        </>
      )}
    </div>
  );
}
