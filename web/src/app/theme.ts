/** The theme, applied before the first paint and stored in this browser. */
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'palaver.theme';
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');

export function storedTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
}

function applyTheme(): void {
  const theme = storedTheme();
  document.documentElement.dataset.theme = theme === 'system' ? (prefersDark.matches ? 'dark' : 'light') : theme;
}

export function startTheme(): void {
  prefersDark.addEventListener('change', applyTheme);
  applyTheme();
}
