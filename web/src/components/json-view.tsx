/** Tree view of a JSON value. Deep or long parts render when opened, so that large values are cheap. */
import { ChevronRight } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { cn } from '@/lib/cn';
import { safeExact } from '@/lib/safe-text';
import { Button, CopyButton } from './button';

const ENTRIES_PER_PAGE = 100;
const INITIAL_STRING_LENGTH = 400;
const COPY_BUTTON_CLASS =
  'absolute top-0 right-0 z-10 rounded-lg bg-surface opacity-0 transition-opacity ' +
  'group-hover/json:opacity-100 focus-within:opacity-100 pointer-coarse:opacity-100';

/** `openLevels`: number of levels that are open initially. */
export function JsonView({
  value,
  openLevels = 1,
  copy = true,
}: {
  value: unknown;
  openLevels?: number;
  copy?: boolean;
}): ReactNode {
  return (
    <div dir="ltr" className="group/json relative min-w-0 font-mono text-[13px] leading-relaxed">
      {copy && (
        <div className={COPY_BUTTON_CLASS}>
          <CopyButton label="Copy JSON" text={() => jsonText(value)} />
        </div>
      )}
      <Value value={value} levels={openLevels} />
    </div>
  );
}

function Value({ name, value, levels }: { name?: string; value: unknown; levels: number }): ReactNode {
  if (typeof value === 'object' && value !== null && entryCount(value) > 0)
    return <JsonBranch name={name} value={value} levels={levels} />;
  return (
    <div className="pl-4 wrap-anywhere">
      <Name name={name} />
      <JsonLeaf value={value} />
    </div>
  );
}

function Name({ name }: { name: string | undefined }): ReactNode {
  if (name === undefined) return null;
  return (
    <>
      <span className="text-(--code-title)">{safeExact(name.length > 200 ? `${name.slice(0, 200)}…` : name)}</span>
      <span className="text-faint">: </span>
    </>
  );
}

function JsonBranch({ name, value, levels }: { name: string | undefined; value: object; levels: number }): ReactNode {
  const [isOpen, setOpen] = useState(levels > 0);
  const [visibleCount, setVisibleCount] = useState(ENTRIES_PER_PAGE);
  const total = entryCount(value);
  return (
    <div>
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
        className="flex w-full items-start rounded-sm text-left hover:bg-sunken"
      >
        <ChevronRight
          aria-hidden
          className={cn('mt-1 size-3.5 shrink-0 text-faint transition-transform', isOpen && 'rotate-90')}
        />
        <span className="min-w-0 pl-0.5 wrap-anywhere">
          <Name name={name} />
          <span className="text-faint">
            {isOpen ? (Array.isArray(value) ? `[${total}]` : `{${total}}`) : safeExact(jsonSummary(value))}
          </span>
        </span>
      </button>
      {isOpen && (
        <div className="ml-1.5 border-l pl-2">
          {jsonEntries(value, visibleCount).map(([key, item]) => (
            <Value key={key} name={key} value={item} levels={levels - 1} />
          ))}
          {total > visibleCount && (
            <Button size="small" variant="quiet" onClick={() => setVisibleCount(visibleCount + ENTRIES_PER_PAGE)}>
              Show {Math.min(ENTRIES_PER_PAGE, total - visibleCount)} of {total - visibleCount} more
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

function JsonLeaf({ value }: { value: unknown }): ReactNode {
  if (typeof value === 'string') return <Text text={value} />;
  if (typeof value === 'number') return <span className="text-(--code-number)">{String(value)}</span>;
  if (typeof value === 'object' && value !== null)
    return <span className="text-faint">{Array.isArray(value) ? '[]' : '{}'}</span>;
  return <span className="text-(--code-keyword)">{String(value)}</span>; // true, false, null
}

function Text({ text }: { text: string }): ReactNode {
  const [visibleCount, setVisibleCount] = useState(INITIAL_STRING_LENGTH);
  const isTruncated = text.length > visibleCount;
  return (
    <>
      <span
        dir="auto"
        className="whitespace-pre-wrap text-(--code-string)"
      >{`"${safeExact(isTruncated ? text.slice(0, visibleCount) : text)}${isTruncated ? '…' : '"'}`}</span>
      {isTruncated && (
        <Button size="small" variant="quiet" onClick={() => setVisibleCount(visibleCount * 20)}>
          Show more
        </Button>
      )}
    </>
  );
}

export const entryCount = (value: object): number => (Array.isArray(value) ? value.length : Object.keys(value).length);

/** The first entries of an object or list. */
export function jsonEntries(value: object, count: number): [string, unknown][] {
  if (Array.isArray(value)) return value.slice(0, count).map((item: unknown, index) => [String(index), item]);
  return Object.keys(value)
    .slice(0, count)
    .map((key) => [key, (value as Record<string, unknown>)[key]]);
}

/** The value on one line, cut to about `length` characters. */
export function jsonSummary(value: unknown, length = 80): string {
  const text = summarize(value, length);
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function summarize(value: unknown, limit: number): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, limit));
  if (typeof value !== 'object' || value === null) return String(value);
  const isList = Array.isArray(value);
  const parts: string[] = [];
  let length = 2;
  for (const [key, item] of jsonEntries(value, 20)) {
    if (length >= limit) break;
    const part = isList ? summarize(item, limit - length) : `${key.slice(0, 40)}: ${summarize(item, limit - length)}`;
    parts.push(part);
    length += part.length + 2;
  }
  const ellipsis = parts.length < entryCount(value) ? ', …' : '';
  return isList ? `[${parts.join(', ')}${ellipsis}]` : `{${parts.join(', ')}${ellipsis}}`;
}

/** Format a value as indented JSON, or with `String` if it cannot be encoded. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? String(value);
  } catch {
    return String(value);
  }
}

/** A JSON view in a box that scrolls. */
export const JsonBox = ({ value }: { value: unknown }): ReactNode => (
  <div className="max-h-[32rem] overflow-y-auto rounded-xl border bg-surface p-2">
    <JsonView value={value} openLevels={2} />
  </div>
);
