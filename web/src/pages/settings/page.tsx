/** /settings: preferences of this browser, and settings of the server. */
import { useState, type ReactNode } from 'react';
import { useIsAdmin } from '@/app/auth';
import { ShortcutsTable } from '@/app/shortcuts-dialog';
import { setTheme, storedTheme } from '@/app/theme';
import { SegmentedControl } from '@/components/form-fields';
import { useTitle } from '@/lib/hooks';
import { setPreferences, usePreferences } from '@/lib/preferences';
import { KeysSection } from './api-keys';
import { AboutSection, BrowserSection, SettingsSection, ServerSection, TourSection } from './sections';

const THEMES = { system: 'System', light: 'Light', dark: 'Dark' };
const SEND_KEYS = { enter: 'Enter', 'ctrl-enter': 'Ctrl + Enter' };

export default function SettingsPage(): ReactNode {
  useTitle('Settings');
  const isAdmin = useIsAdmin();
  const [theme, setThemeState] = useState(storedTheme);
  const { send } = usePreferences();
  return (
    <div className="mx-auto flex max-w-3xl flex-col gap-8 px-4 py-6 sm:px-8">
      <h1 className="text-xl font-semibold">Settings</h1>
      <SettingsSection title="Appearance">
        <SettingRow title="Theme" text="System follows your device setting.">
          <SegmentedControl
            label="Theme"
            options={THEMES}
            value={theme}
            onChange={(value) => {
              setTheme(value);
              setThemeState(value);
            }}
          />
        </SettingRow>
      </SettingsSection>
      <SettingsSection title="Chat">
        <SettingRow
          title="Send messages with"
          text={
            send === 'enter'
              ? 'Enter sends, Shift + Enter starts a new line.'
              : 'Ctrl + Enter (⌘ + Enter on a Mac) sends, Enter starts a new line.'
          }
        >
          <SegmentedControl
            label="Send messages with"
            options={SEND_KEYS}
            value={send}
            onChange={(value) => setPreferences({ send: value })}
          />
        </SettingRow>
      </SettingsSection>
      <TourSection />
      <SettingsSection title="Keyboard shortcuts">
        <ShortcutsTable send={send} />
      </SettingsSection>
      {isAdmin && <KeysSection />}
      {isAdmin && <ServerSection />}
      <AboutSection />
      <BrowserSection />
    </div>
  );
}

const SettingRow = ({ title, text, children }: { title: string; text: string; children: ReactNode }): ReactNode => (
  <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
    <div className="min-w-0">
      <div className="font-medium">{title}</div>
      <div className="text-[13px] text-muted">{text}</div>
    </div>
    {children}
  </div>
);
