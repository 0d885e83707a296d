/** Toasts near the lower edge of the page, above the composer. `showToast` can be called from anywhere. */
import type { ReactNode } from 'react';
import { create } from 'zustand';
import { cn } from '@/lib/cn';

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run: () => void };
}

const MAX_TOASTS = 3;
const DURATION_MS = 5000;
const DURATION_WITH_ACTION_MS = 10_000;

const useToasts = create<readonly Toast[]>(() => []);
let lastId = 0;

const dismiss = (id: number): void => useToasts.setState((toasts) => toasts.filter((toast) => toast.id !== id), true);

export function showToast(
  text: string,
  { bad = false, action }: { bad?: boolean; action?: Toast['action'] } = {},
): void {
  const id = ++lastId;
  useToasts.setState(
    (toasts) => [...toasts.slice(1 - MAX_TOASTS), { id, text, bad, ...(action ? { action } : {}) }],
    true,
  );
  setTimeout(() => dismiss(id), action ? DURATION_WITH_ACTION_MS : DURATION_MS);
}

/** Show an error; for event handlers that do not await their promise. */
export const showError = (error: unknown): void =>
  showToast(error instanceof Error ? error.message : String(error), { bad: true });

export function Toaster(): ReactNode {
  const toasts = useToasts();
  return (
    <div
      aria-live="polite"
      className="pointer-events-none fixed inset-x-0 bottom-30 z-50 flex flex-col items-center gap-2 px-4"
    >
      {toasts.map((toast) => (
        <div
          key={toast.id}
          className={cn(
            'pointer-events-auto flex max-w-lg items-center gap-3 rounded-xl px-4 py-2 text-canvas shadow-float',
            toast.bad ? 'bg-bad' : 'bg-ink',
          )}
        >
          <span className="wrap-anywhere" dir="auto">
            {toast.text}
          </span>
          {toast.action && (
            <button
              type="button"
              className="font-semibold underline"
              onClick={() => {
                toast.action?.run();
                dismiss(toast.id);
              }}
            >
              {toast.action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
