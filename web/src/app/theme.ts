/** Light, dark or what the system says. Set before the first paint, remembered in this browser. */
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'palaver.theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  show();
}

function show(): void {
  const chosen = theme();
  document.documentElement.dataset.theme = chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen;
}

export function startTheme(): void {
  dark.addEventListener('change', show);
  show();
}
