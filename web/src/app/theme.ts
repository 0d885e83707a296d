/** The theme, applied before the first paint and stored in this browser. */
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'palaver.theme';
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');

export function storedTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

export function setTheme(chosen: Theme): void {
  if (chosen === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  applyTheme();
}

function applyTheme(): void {
  const chosen = storedTheme();
  document.documentElement.dataset.theme = chosen === 'system' ? (prefersDark.matches ? 'dark' : 'light') : chosen;
}

export function startTheme(): void {
  prefersDark.addEventListener('change', applyTheme);
  applyTheme();
}
