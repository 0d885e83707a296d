/** A line near the lower edge, above where one writes, that says what has just happened. `tell` may be called from anywhere. */
import { useSyncExternalStore, type ReactNode } from 'react';

interface Told {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run: () => void };
}

let told: readonly Told[] = [];
let last = 0;
const listeners = new Set<() => void>();

function become(next: readonly Told[]): void {
  told = next;
  for (const listener of listeners) listener();
}

export function tell(text: string, { bad = false, action }: { bad?: boolean; action?: Told['action'] } = {}): void {
  const id = ++last;
  become([...told.slice(-2), { id, text, bad, ...(action ? { action } : {}) }]);
  setTimeout(() => become(told.filter((one) => one.id !== id)), action ? 10_000 : 5000);
}

/** What went wrong, told; for event handlers whose promise nobody awaits. */
export const tellError = (error: unknown): void => tell(error instanceof Error ? error.message : String(error), { bad: true });

export function Toasts(): ReactNode {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => told,
  );
  return (
    <div aria-live="polite" className="pointer-events-none fixed inset-x-0 bottom-30 z-50 flex flex-col items-center gap-2 px-4">
      {shown.map((one) => (
        <div
          key={one.id}
          className={`pointer-events-auto flex max-w-lg items-center gap-3 rounded-xl px-4 py-2 shadow-float ${one.bad ? 'bg-bad text-canvas' : 'bg-ink text-canvas'}`}
        >
          <span className="wrap-anywhere" dir="auto">
            {one.text}
          </span>
          {one.action && (
            <button
              type="button"
              className="font-semibold underline"
              onClick={() => {
                one.action?.run();
                become(told.filter((other) => other.id !== one.id));
              }}
            >
              {one.action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
