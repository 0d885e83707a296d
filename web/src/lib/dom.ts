/** Copy text, with a fallback for insecure origins, where browsers hide the clipboard. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied) throw new Error('The browser blocked copying. Select the text and copy it manually.');
  return undefined;
}

/** Ref callback that focuses the element when it mounts; a dialog would focus its close button. */
export const focusRef = (element: HTMLElement | null): void => element?.focus();
