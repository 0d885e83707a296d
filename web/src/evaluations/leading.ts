/** The way from a fault to its field: parts of the form carry in `data-at` the pointer that they are about. */
const FIELDS = 'input, select, textarea, [contenteditable="true"]';

/** Puts the focus on the field that a pointer is about, in the middle of what is seen. */
export function leadTo(form: HTMLElement, path: string): void {
  const parts = [...form.querySelectorAll<HTMLElement>('[data-at]')].filter(({ dataset: { at = '' } }) => path === at || path.startsWith(`${at}/`));
  // A part inside of another one comes after it, and is nearer.
  const part = parts.at(-1);
  const field = part?.querySelector<HTMLElement>('[aria-invalid="true"]') ?? part?.querySelector('[role=alert]')?.parentElement?.querySelector<HTMLElement>(FIELDS) ?? part?.querySelector<HTMLElement>(FIELDS);
  field?.focus({ preventScroll: true });
  (field ?? part)?.scrollIntoView({ block: 'center' });
}
