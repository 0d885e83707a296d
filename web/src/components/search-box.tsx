/** Search fields; `SearchBox` debounces its value. */
import { Search, X } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState, type ReactNode, type RefObject, type Ref } from 'react';
import { cn } from '@/lib/cn';

const DEBOUNCE_MS = 300;

interface Props {
  value: string;
  onChange: (value: string) => void;
  field: RefObject<HTMLInputElement | null>;
  placeholder?: string;
}

export function SearchBox({ value, onChange, field, placeholder = 'Search names and messages' }: Props): ReactNode {
  const [text, setText] = useState(value);
  const lastSent = useRef(value);
  const send = useEffectEvent(onChange);
  useEffect(() => {
    // The value changed outside: Back, or a saved view.
    if (value === lastSent.current) return;
    lastSent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text === lastSent.current) return undefined;
    const timer = setTimeout(
      () => {
        lastSent.current = text;
        send(text);
      },
      text === '' ? 0 : DEBOUNCE_MS,
    );
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <SearchInput
      ref={field}
      label="Search"
      placeholder={placeholder}
      maxLength={1000}
      value={text}
      onChange={setText}
      className="relative min-w-0 grow basis-56"
    />
  );
}

interface SearchInputProps {
  ref?: Ref<HTMLInputElement>;
  label: string;
  placeholder: string;
  maxLength: number;
  value: string;
  onChange: (value: string) => void;
  className: string;
}

/** A search field with its icon; Escape and the cross clear it. */
export function SearchInput({ label, value, onChange, className, ...inputProps }: SearchInputProps): ReactNode {
  return (
    <div className={className}>
      <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
      <input
        type="search"
        dir="auto"
        aria-label={label}
        value={value}
        {...inputProps}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && onChange('')}
        className={cn(
          'h-8 w-full rounded-lg border bg-surface pr-8 pl-8.5',
          'hover:border-strong-line [&::-webkit-search-cancel-button]:hidden',
        )}
      />
      {value && (
        <button
          type="button"
          aria-label="Clear search"
          onClick={() => onChange('')}
          className="absolute top-1 right-1 rounded p-1 text-faint hover:text-ink"
        >
          <X className="size-4" />
        </button>
      )}
    </div>
  );
}
