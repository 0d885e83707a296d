/** Questions over the page: may this be done, and how shall it be called. Asked from anywhere, answered once. */
import { useState, useSyncExternalStore, type ReactNode } from 'react';
import { focused } from '@/lib/dom';
import { Button } from './button';
import { Dialog } from './dialog';
import { TextField } from './form-fields';

interface Asked {
  title: string;
  text?: string;
  /** What the button says. */
  act: string;
  danger?: boolean;
  /** A text is asked for, with this to begin with. */
  value?: string;
  label?: string;
}

interface Open extends Asked {
  id: number;
  answer: (value: string | null) => void;
}

let open: Open | null = null;
let last = 0;
const listeners = new Set<() => void>();

function become(next: Open | null): void {
  open?.answer(null);
  open = next;
  for (const listener of listeners) listener();
}

const ask = (asked: Asked): Promise<string | null> =>
  new Promise((answer) => {
    become({ ...asked, id: ++last, answer });
  });

/** May this be done? */
export const askYes = async (asked: Omit<Asked, 'value' | 'label'>): Promise<boolean> => (await ask(asked)) !== null;

/** A line of text; null when nobody wants to give one. */
export const askText = (asked: Asked & { value: string; label: string }): Promise<string | null> => ask(asked);

export function Asking(): ReactNode {
  const asked = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => open,
  );
  return asked && <Question key={asked.id} asked={asked} />;
}

function Question({ asked }: { asked: Open }): ReactNode {
  const [text, setText] = useState(asked.value ?? '');
  const done = (value: string | null) => {
    asked.answer(value);
    become(null);
  };
  return (
    <Dialog open onClose={() => done(null)} title={asked.title} {...(asked.text ? { description: asked.text } : {})}>
      <form
        className="flex flex-col gap-4 pt-1"
        onSubmit={(event) => {
          event.preventDefault();
          done(text.trim());
        }}
      >
        {asked.value !== undefined && (
          <TextField
            ref={focused}
            dir="auto"
            aria-label={asked.label}
            maxLength={200}
            value={text}
            onChange={(event) => setText(event.target.value)}
            onFocus={(event) => event.target.select()}
          />
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={() => done(null)}>Cancel</Button>
          <Button type="submit" look={asked.danger ? 'danger' : 'main'} {...(asked.value === undefined ? { ref: focused } : {})}>
            {asked.act}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
